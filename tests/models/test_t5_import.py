"""ea-fairseq import-t5: what a T5 computes, its model computes here; what is none is refused in one sentence."""

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from ea_fairseq import EAT5Model
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.experiments.runs import t5_import
from ea_fairseq.plain.sentinels import SENTINELS
from ea_fairseq.text.t5_pieces import read_pieces
from imported_models import assert_import_refused, changed, run_import, without
from laws import assert_close
from t5 import PIECES, ROWS, VERSIONS, learn_pieces, needs_transformers, random_t5, theirs, write_t5

imported, assert_refused = (partial(run, t5_import) for run in (run_import, assert_import_refused))
LENGTH = 12  # tokens of translations, at most
SENTENCES = ["the cat sees well .", "a dog ran", "the house <extra_id_0> far away . a dog <extra_id_1> ."]


@pytest.fixture(scope="module", params=VERSIONS)
def t5(request, tmp_path_factory):
    """The folder of a T5's files, what is imported of it, and its version."""
    folder = tmp_path_factory.mktemp("t5")
    files = write_t5(folder / "files", request.param)
    with pytest.MonkeyPatch.context() as monkeypatch:
        return files, imported(files, folder / "out", monkeypatch), request.param


def ids_of_t5(files: Path, words: Dictionary) -> torch.Tensor:
    """T5's id of each symbol of the dictionary, (types,)."""
    pieces = read_pieces(files / "spiece.model")
    unused = iter(range(len(pieces), ROWS))
    return torch.tensor([pieces.index(word) if word in pieces else next(unused) for word in words.symbols])


# Logits of the tokens 4, 30 and 130 after each of STARTS, which transformers 5.24 gave for the T5s of regular_t5.
SOURCE, STARTS = [5, 9, 12, 40, 7, 1], [0, 4, 8, 6]
LOGITS_OF_TRANSFORMERS: dict[str, list[list[float]]] = {
    "1.0": [
        [-0.0298184, 0.0083275, 0.0448448],
        [0.0981077, -0.045066, -0.1330973],
        [-0.0399479, 0.0620777, 0.0184302],
        [-0.0383213, 0.0209234, 0.0492727],
    ],
    "1.1": [
        [-0.1479659, 0.198772, 0.0937523],
        [0.0904157, 0.0375741, -0.1873634],
        [0.230633, -0.3487436, -0.1142988],
        [-0.1065087, 0.1466048, 0.0646018],
    ],
}


def regular_t5(version: str) -> dict[str, torch.Tensor]:
    """A T5 whose parameters are sines, which need no random numbers."""
    shapes = {name: tensor.shape for name, tensor in random_t5(version).items()}
    return {
        name: (0.7 * (1.7 * torch.arange(shape.numel(), dtype=torch.float64) + place).sin()).float().view(shape)
        for place, (name, shape) in enumerate(shapes.items())
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_logits_are_those_that_transformers_gave(version, tmp_path, monkeypatch):
    """Where that library is not installed, too."""
    files = write_t5(tmp_path / "files", version, regular_t5(version))
    hub = EAT5Model.from_pretrained(imported(files, tmp_path / "out", monkeypatch))
    places = ids_of_t5(files, hub.src_dict).argsort()  # of T5's ids in the dictionary
    previous = places[[1, *STARTS[1:]]].unsqueeze(0)  # fairseq's batches begin with </s>
    with torch.no_grad():
        found, _ = hub.models[0].double()(places[SOURCE].unsqueeze(0), torch.tensor([len(SOURCE)]), previous)
    expected = torch.tensor(LOGITS_OF_TRANSFORMERS[version], dtype=torch.float64)
    assert_close(found[0][:, places[[4, 30, 130]]], expected, 1e-5)


@needs_transformers
def test_logits_are_t5s(t5):
    files, out, _ = t5
    hub = EAT5Model.from_pretrained(out)
    words, model = hub.src_dict, hub.models[0].double()  # theirs still measures vectors in float32
    ids = ids_of_t5(files, words)
    sources = [hub.encode(sentence) for sentence in SENTENCES]
    targets = [hub.encode_target(sentence) for sentence in reversed(SENTENCES)]
    expected = theirs(files).double()
    for left in (False, True):  # as fairseq pads sources by default
        source, target = (
            torch.nn.utils.rnn.pad_sequence(side, True, words.pad(), "left" if pads else "right")
            for side, pads in ((sources, left), (targets, False))
        )
        previous = torch.cat([target.new_full((len(target), 1), words.eos()), target[:, :-1]], dim=1)
        starts = torch.cat([target.new_full((len(target), 1), 0), ids[target[:, :-1]]], dim=1)
        with torch.no_grad():
            ours, _ = model(source, source.ne(words.pad()).sum(1), previous)
            logits = expected(ids[source], source.ne(words.pad()).long(), decoder_input_ids=starts).logits
        real = target.ne(words.pad())
        assert logits.abs().mean() > 0.1
        assert_close(ours[real], logits[..., ids][real], 1e-5)


@needs_transformers
def test_greedy_translations_are_t5s(t5):
    files, out, _ = t5
    hub = EAT5Model.from_pretrained(out)
    ids, expected = ids_of_t5(files, hub.src_dict), theirs(files)
    seen = set()
    for sentence in SENTENCES:
        tokens = hub.encode(sentence)
        ((found,),) = hub.generate([tokens], beam=1, max_len_a=0, max_len_b=LENGTH)
        best = expected.generate(ids[tokens].unsqueeze(0), do_sample=False, max_new_tokens=LENGTH, suppress_tokens=[0])
        start, *best = best[0].tolist()
        assert start == 0 and ids[found["tokens"]].tolist()[:LENGTH] == best
        seen.update(best)
    assert len(seen) > 3


def test_the_dictionary_has_t5s_pieces_then_its_sentinels_and_as_many_rows(t5):
    files, out, version = t5
    words = Dictionary.load(str(out / "dict.txt"))
    assert len(words) == ROWS
    pieces = read_pieces(files / "spiece.model")
    assert len(pieces) == PIECES + 100 and pieces[-100:] == [*reversed(SENTINELS)]
    assert words.symbols[4 : 4 + len(pieces) - 3] == pieces[3:]
    assert all(word.startswith("madeupword") for word in words.symbols[1 + len(pieces) :])
    table = read_checkpoint(out / "model.pt")["model"]["encoder.embed_tokens.weight"]
    assert len(table) == ROWS and torch.equal(table[words.index("</s>")], random_t5(version)["shared.weight"][1])


def test_a_dictionary_as_large_as_the_pieces_gives_the_first_symbol_the_row_of_padding(tmp_path, monkeypatch):
    rows = PIECES + 100
    files = write_t5(tmp_path, "1.0", random_t5("1.0", rows=rows), vocab_size=rows)
    state = read_checkpoint(imported(files, tmp_path / "out", monkeypatch) / "model.pt")["model"]
    table = state["encoder.embed_tokens.weight"]
    assert len(table) == rows + 1 and torch.equal(table[0], table[1])


def test_raw_text_may_have_sentinels(t5):
    _, out, _ = t5
    hub = EAT5Model.from_pretrained(out)
    symbols = [hub.src_dict[token] for token in hub.encode("a dog <extra_id_7> far")]
    assert "<extra_id_7>" in symbols and "<unk>" not in symbols
    assert hub.decode(hub.encode("a dog <extra_id_7> far")) == "a dog<extra_id_7> far"


QUERY = "encoder.block.0.layer.0.SelfAttention.q.weight"
FLAWS = {
    "missing": (without("decoder.block.1.layer.2.DenseReluDense.wo.weight"), "has no .*layers.1.fc2.weight"),
    "no positions": (
        without("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        "it has no matrix decoder.layers.0.self_attn.terms.1.weight",
    ),
    "unknown": (changed("encoder.block.0.layer.2.x.weight", lambda _: torch.ones(2)), "which no T5 has"),
    "control": (changed("\x1b[31m", lambda _: torch.ones(2)), r"has \\x1b\[31m, which"),
    "not finite": (changed(QUERY, lambda old: old * float("nan")), "q.weight has numbers that are not finite"),
    "whole numbers": (changed(QUERY, torch.Tensor.long), "of whole numbers"),
    "queries": (changed(QUERY, lambda old: old[:3].clone()), "has no query projection to 18 numbers"),
    "one layer of a thousand": (
        changed("encoder.block.999.layer.1.DenseReluDense.wo.weight", lambda _: torch.ones(2)),
        "too few parameters for 1002 layers",
    ),
    "vector": (changed("shared.weight", lambda old: old[0].clone()), "it has no matrix encoder.embed_tokens.weight"),
    "pieces": (changed("shared.weight", lambda old: old[:99].clone()), "'vocab_size' is 142 there"),
    "untied": (
        changed("lm_head.weight", lambda _: torch.ones(ROWS, 16)),
        "has a lm_head.weight that is not its shared.weight",
    ),
    "two tables": (
        changed("decoder.embed_tokens.weight", lambda _: torch.ones(ROWS, 16)),
        "has a decoder.embed_tokens.weight that is not its shared.weight",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_other_weights_are_refused_in_one_sentence(tmp_path, monkeypatch, flaw):
    change, reason = FLAWS[flaw]
    parameters = random_t5("1.0")
    change(parameters)
    assert_refused(write_t5(tmp_path, "1.0", parameters), monkeypatch, reason)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"num_layers": 5}, "of two models: 'num_layers' is 5 there, and the weights have 3"),
        ({"d_ff": 1}, "'d_ff' is 1 there"),
        ({"num_heads": 0}, "'num_heads' and 'd_kv' must be 1 or more"),
        ({"num_heads": 4}, "has no query projection to 24 numbers"),
        ({"num_heads": "3"}, "'num_heads' must be a whole number"),
        ({"d_kv": 1 << 40}, "has no query projection to 3,298,534,883,328 numbers"),
        ({"model_type": "mt5"}, "'model_type' must be t5"),
        ({"feed_forward_proj": "gated-silu"}, "must be relu or gated-gelu"),
        ({"tie_word_embeddings": False}, "must be relu and true"),
        ({"layer_norm_epsilon": 1e-5}, "'layer_norm_epsilon' must be 1e-06"),
        ({"relative_attention_num_buckets": 64}, "'relative_attention_num_buckets' must be 32"),
        ({"decoder_start_token_id": 5}, "'decoder_start_token_id' must be 0"),
    ],
)
def test_other_configurations_are_refused(tmp_path, monkeypatch, config, reason):
    assert_refused(write_t5(tmp_path, "1.0", **config), monkeypatch, reason)


@pytest.mark.parametrize("name", ["model.safetensors", "spiece.model", "config.json"])
@pytest.mark.parametrize("content", [None, b"", b"\x80\x04}.", b"\xff" * 64, b"PK\x03\x04", b"[" * 99999])
def test_other_files_and_missing_ones_are_refused(tmp_path, monkeypatch, name, content):
    folder = write_t5(tmp_path, "1.0")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    assert_refused(folder, monkeypatch, "there is no|cannot be read|is no|is not|it is no")


def test_a_vocabulary_with_other_symbols_is_refused(tmp_path, monkeypatch):
    folder = write_t5(tmp_path, "1.0")
    learn_pieces(folder / "spiece.model", pad_id=-1, eos_id=2, unk_id=0, bos_id=1)
    assert_refused(folder, monkeypatch, "is not of a T5: its first pieces are")


def test_the_options_are_written_for_preparations_and_the_hub(t5):
    _, out, _ = t5
    described = json.loads((out / "preparation.json").read_text())
    assert (described["subword"], described["source_lang"], described["target_lang"]) == ("t5", "inputs", "targets")


@torch.no_grad()
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_t5_with_evolving_attention_goes_on_as_it_is(t5, beta):
    """Without a weight of convolutions, and where they start as the identity."""
    _, out, _ = t5
    hub = EAT5Model.from_pretrained(out)
    saved, words = read_checkpoint(out / "model.pt"), SimpleNamespace(source_dictionary=hub.src_dict)
    words.target_dictionary = hub.src_dict
    arch = f"ea_{saved['args'].arch}"
    args = Namespace(**{**vars(saved["args"]), "arch": arch, "ea_alpha": 0.0, "ea_beta": beta})
    ARCH_CONFIG_REGISTRY[arch](args)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, words).eval()
    model.load_state_dict(saved["model"])
    source, target = hub.encode(SENTENCES[0]).unsqueeze(0), hub.encode_target(SENTENCES[1]).unsqueeze(0)
    found, expected = (each(source, None, target)[0] for each in (model, hub.models[0]))
    assert expected.abs().mean() > 0.1
    assert_close(found, expected, 1e-5)
