"""Native search whose linear layers multiply in bfloat16 or int8."""

import json
import sys
from dataclasses import asdict
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import save_loud
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring import precisions
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.plain.precisions import REDUCED
from ea_fairseq.search import model_cache, native_search
from ea_fairseq.search.generation_options import requested_precisions
from ea_fairseq.search.native_search import fastest_precision
from ea_fairseq.search.precision_bleu import NAME, PrecisionBleu, accurate, digest
from ea_fairseq.search.shortlist import Shortlist
from ea_fairseq.search.support import unsupported_reasons
from forked import run_forked_well
from generation import generated
from mapped_models import write_models
from precision import rounded
from reversal import DATA
from searches import MODELS, WORDS, assert_same, batch, model_of
from tiny import build, sizes

# Of scores: a sum in another order may be rounded to a neighbour, and layers above go on from there.
NEAR = {"bfloat16": 0.15, "int8": 0.3}
SETS = {"avx512_bf16": "bfloat16", "amx_bf16": "bfloat16", "avx512_int8": "int8", "amx_int8": "int8"}
supported = list(map(native_library.reduced_instruction_set, REDUCED))
supported += [found.replace("amx", "avx512") for found in supported if found and found.startswith("amx")]


def needs(*sets: str) -> list:
    """Instruction sets, each skipped unless this processor has it."""
    return [
        pytest.param(name, marks=pytest.mark.skipif(name not in supported, reason=f"the processor has no {name}"))
        for name in sets
    ]


@pytest.fixture(autouse=True)
def requested_is_faster(monkeypatch):
    """Native code uses the precision that is requested, however fast it is on this processor."""
    monkeypatch.setattr(native_search, "fastest_precision", lambda search, precisions, title: precisions[-1])


@pytest.fixture(params=needs(*SETS))
def precision(request, monkeypatch):
    """A precision, with each instruction set for it."""
    of_float32 = {"float32": None}
    monkeypatch.setattr(
        native_library, "reduced_instruction_set", lambda precision: of_float32.get(precision, request.param)
    )
    return SETS[request.param]


def search(model, sample: dict, *precisions: str, **more) -> list:
    generator = SequenceGenerator([model], WORDS, beam_size=4, max_len_b=12)
    vars(generator).update(more, precisions=precisions)
    native_search.logged.clear()
    found = generator.generate([model], sample)
    assert not native_search.logged
    return found


def rounded_linear(precision: str, linear, x, weight, bias=None):
    return linear(rounded(x, precision).float(), rounded(weight, precision).float(), bias)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_search_of_a_model_that_rounds_what_it_multiplies(name, precision, monkeypatch):
    model, sample = model_of(name), batch([3, 1, 9, 17, 5], seed=1)
    found = search(model, sample, precision)
    monkeypatch.setenv("EA_BACKEND", "reference")
    monkeypatch.setattr(F, "linear", partial(rounded_linear, precision, F.linear))
    generator = SequenceGenerator([model], WORDS, beam_size=4, max_len_b=12)
    assert_same(found, native_search.fairseq_generate(generator, sample), near=NEAR[precision])


@given(st.lists(st.integers(1, 20), min_size=2, max_size=9), st.integers(0, 1000))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sentence_has_the_same_hypotheses_alone(precision, lengths, seed):
    model, sample = model_of("all skips, kernel 5"), batch(lengths, seed)
    together = search(model, sample, precision)
    one = batch(lengths, seed)
    one["net_input"]["src_tokens"] = sample["net_input"]["src_tokens"][:1]
    one["net_input"]["src_lengths"] = sample["net_input"]["src_lengths"][:1]
    (alone,) = search(model, one, precision)
    assert [found["tokens"].tolist() for found in alone] == [found["tokens"].tolist() for found in together[0]]


TRANSLATE_IN_A_SMALL_THREAD = """
import sys, threading
from fairseq.sequence_generator import SequenceGenerator
from ea_fairseq.search import native_search
from searches import WORDS, batch
from tiny import build, sizes

inputs, precision = int(sys.argv[1]), sys.argv[2]
model = build(**{**sizes(layers=1), "encoder_ffn_embed_dim": inputs})
model.make_generation_fast_(need_attn=False)
native_search.fastest_precision = lambda search, precisions, title: precisions[-1]
generator = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=3)
generator.precisions = (precision,)
threading.stack_size(2 << 20)  # bytes, as of glibc's threads where stacks have no limit
thread = threading.Thread(target=lambda: print(len(generator.generate([model], batch([110, 20], 1)))))
thread.start()
thread.join()
print(*native_search.logged)
"""


@pytest.mark.parametrize("precision", [name for name in REDUCED if native_library.reduced_instruction_set(name)])
def test_rounded_rows_of_a_wide_network_fit_a_threads_stack(precision, tmp_path):
    arguments = "translate", 1 << 16, precision
    assert run_forked_well(*arguments, cwd=tmp_path, code=TRANSLATE_IN_A_SMALL_THREAD).split() == ["2"]


@pytest.mark.parametrize("inputs", [1 << 17, (1 << 17) + 1])
def test_layers_of_more_inputs_than_sums_hold_are_left_to_pytorch(inputs):
    model = build(**{**sizes(layers=1), "encoder_ffn_embed_dim": inputs})
    reasons = {*unsupported_reasons(model)}
    assert ("a linear layer has more than 131,072 inputs" in reasons) == (inputs > 1 << 17)


def test_it_goes_with_a_shortlist_and_beside_float32(precision):
    model, sample = model_of(), batch([3, 9, 1, 14], seed=1)
    everything = Shortlist(torch.arange(len(WORDS)), {}, len(WORDS))
    found = search(model, sample, precision, shortlist=everything)
    for one, other in zip(found, search(model, sample, precision), strict=True):
        assert [found["tokens"].tolist() for found in one] == [found["tokens"].tolist() for found in other]
    scores = [torch.stack([one["score"] for one in found[0]]) for found in (found, search(model, sample))]
    assert not torch.equal(*scores)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--native-bf16", "--native-int8", "--native-fast"])
def test_fairseq_generate_has_the_options(flag, home, tmp_path):
    if None in supported:
        pytest.skip("the processor has no bfloat16 or no int8")
    save_loud(home / DATA, tmp_path / "model.pt")
    flags = ["--path", tmp_path / "model.pt", "--beam", 2, "--max-len-b", 9]
    native_search.logged.clear()
    scores = []
    for more in ([flag], []):
        lines = generated(home / DATA, tmp_path, *flags, *more).splitlines()
        scores.append([float(line.split("\t")[1]) for line in lines if line.startswith("H-")])
    assert scores[0] != scores[1] and not native_search.logged
    torch.testing.assert_close(*map(torch.tensor, scores), atol=0.3, rtol=0)  # of two precisions


@pytest.mark.parametrize("fastest", ["float32", *REDUCED])
@pytest.mark.parametrize("requested", [("bfloat16",), ("int8",), REDUCED], ids=" ".join)
def test_the_fastest_precision_is_chosen_and_a_slower_one_that_was_requested_is_warned_of(
    fastest, requested, monkeypatch, caplog
):
    clock, precisions = [0.0], ("float32", *requested)

    def search(precision: str) -> None:
        clock[0] += 0.001 if precision == fastest else 0.002 if precision == "float32" else 0.003

    caplog.set_level("INFO", native_search.logger.name)
    monkeypatch.setattr(native_search.time, "perf_counter", lambda: clock[0])
    chosen = fastest if fastest in precisions else "float32"
    assert fastest_precision(search, precisions, "3 tokens of 32 sentences, beam 5") == chosen
    (record,) = caplog.records
    is_refused = chosen == "float32" and len(requested) == 1
    assert (record.levelname == "WARNING") == (is_refused or len(requested) > 1)
    instead = f" instead of {requested[0]}, which is slower on this processor" if is_refused else ""
    assert record.message.startswith(
        f"native code computes in {chosen}{instead}: 3 tokens of 32 sentences, beam 5 take "
    )
    for precision in precisions:
        assert f" ms in {precision}" in record.message


def test_where_the_precision_is_slower_the_search_is_that_of_float32(precision, monkeypatch):
    model, sample = model_of(), batch([3, 9, 1, 14], seed=1)
    timed = []
    monkeypatch.setattr(
        native_search,
        "fastest_precision",
        lambda search, precisions, title: (search(precision), timed.append(title), "float32")[-1],
    )
    model_cache.cached_models.clear()
    for _ in range(2):
        assert_same(search(model, sample, precision), search(model, sample))
    assert timed == ["3 tokens of 4 sentences, beam 4"]
    model_cache.cached_models.clear()


def test_a_processor_without_the_instructions_is_refused(monkeypatch):
    monkeypatch.setattr(native_library, "reduced_instruction_set", lambda precision: None)
    for name, precision in {"native_bf16": "bfloat16", "native_int8": "int8"}.items():
        flag = f"--{name.replace('_', '-')}"
        with pytest.raises(UserError, match=f"{flag}: this processor, or the compiler .* {precision}: leave it out"):
            requested_precisions({name: True}.get)
    assert requested_precisions({"native_fast": True}.get) == ()


def test_options_of_two_precisions_exclude_each_other():
    with pytest.raises(UserError, match="--native-bf16 and --native-int8 exclude each other"):
        requested_precisions({"native_bf16": True, "native_int8": True}.get)


def test_the_fast_option_leaves_out_what_cost_more_than_a_tenth_of_bleu_on_a_development_set(tmp_path, caplog):
    checkpoint, precisions = tmp_path / "model.pt", ("float32", *REDUCED)
    checkpoint.write_bytes(b"weights")
    assert accurate(precisions, checkpoint) == precisions
    assert "is not known" in caplog.text
    for bleu, taken in (
        ({"bfloat16": 33.9, "int8": 33.89}, ("float32", "bfloat16")),
        ({"bfloat16": 33.0, "int8": 35.0}, ("float32", "int8")),
        ({}, ("float32",)),
    ):
        measured = PrecisionBleu(digest(checkpoint), "valid", {"float32": 34.0, **bleu})
        (tmp_path / NAME).write_text(json.dumps(asdict(measured)))
        assert accurate(precisions, checkpoint) == taken
        assert "34.00 in float32" in caplog.text
    checkpoint.write_bytes(b"weights of a later training")
    assert accurate(precisions, checkpoint) == precisions


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"checkpoint": "", "subset": "valid", "bleu": {"int8": 1.0}}', "9" * 5000]
)
def test_measurements_that_the_command_does_not_write_are_refused(text, tmp_path):
    checkpoint = tmp_path / "model.pt"
    checkpoint.write_bytes(b"weights")
    (tmp_path / NAME).write_text(text)
    with pytest.raises(UserError, match=f"{NAME} is not what ea-fairseq precisions writes"):
        accurate(("float32", "int8"), checkpoint)


@pytest.mark.skipif(None in supported, reason="the processor has no bfloat16 or no int8")
def test_the_command_measures_what_the_fast_option_reads(tmp_path, monkeypatch, capsys):
    data = write_models(tmp_path) / "data"
    checkpoint = tmp_path / "ea model" / "checkpoint_best.pt"
    monkeypatch.setattr(sys, "argv", ["precisions", str(checkpoint.parent), str(data), "--subset", "test"])
    precisions.main()
    assert f"written to {checkpoint.with_name(NAME)}" in capsys.readouterr().out
    measured = PrecisionBleu.read(checkpoint)
    assert measured.subset == "test" and set(measured.bleu) == {"float32", *REDUCED}
    tried = []
    monkeypatch.setattr(
        native_search, "fastest_precision", lambda search, precisions, title: tried.append(precisions) or "float32"
    )
    generated(data, tmp_path, "--path", checkpoint, "--native-fast")
    assert tried == [accurate(("float32", *REDUCED), checkpoint)]


def test_the_command_refuses_what_it_cannot_measure(tmp_path, monkeypatch):
    data = write_models(tmp_path) / "data"
    monkeypatch.setattr(sys, "argv", ["precisions", str(tmp_path / "plain model"), str(data), "--subset", "test"])
    for supported, sentence in ((None, "supports only float32"), ("amx_int8", "models of fairseq's own")):
        monkeypatch.setattr(native_library, "reduced_instruction_set", lambda precision, found=supported: found)
        with pytest.raises(UserError, match=sentence):
            precisions.main()
    assert not [*tmp_path.rglob(NAME)]
