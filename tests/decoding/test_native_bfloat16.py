"""Native search whose linear layers multiply in bfloat16."""

import pytest
import torch
import torch.nn.functional as F
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import save_loud
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.search import model_cache, native_search
from ea_fairseq.search.generation_options import require_bfloat16
from ea_fairseq.search.native_search import is_faster_in_bfloat16
from ea_fairseq.search.shortlist import Shortlist
from generation import generated
from reversal import DATA
from searches import MODELS, WORDS, assert_same, batch, model_of

NEAR = 0.15  # of scores: a sum in another order may be rounded to a neighbour, and layers above go on from there
needs_bfloat16 = pytest.mark.skipif(not native_library.has_bfloat16(), reason="the processor has no bfloat16")


@pytest.fixture(autouse=True)
def bfloat16_is_faster(monkeypatch):
    """Native code uses bfloat16 when it is requested, however fast it is on this processor."""
    monkeypatch.setattr(native_search, "is_faster_in_bfloat16", lambda *_: True)


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def search(model, sample: dict, native_bf16: bool = True, **more) -> list:
    generator = SequenceGenerator([model], WORDS, beam_size=4, max_len_b=12)
    vars(generator).update(more, native_bf16=native_bf16)
    native_search.logged.clear()
    found = generator.generate([model], sample)
    assert not native_search.logged
    return found


@needs_bfloat16
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_search_of_a_model_that_rounds_what_it_multiplies(name, monkeypatch):
    model, sample = model_of(name), batch([3, 1, 9, 17, 5], seed=1)
    found = search(model, sample)
    linear = F.linear
    monkeypatch.setenv("EA_BACKEND", "reference")
    monkeypatch.setattr(F, "linear", lambda x, weight, bias=None: linear(rounded(x), rounded(weight), bias))
    generator = SequenceGenerator([model], WORDS, beam_size=4, max_len_b=12)
    assert_same(found, native_search.fairseq_generate(generator, sample), near=NEAR)


@needs_bfloat16
@given(st.lists(st.integers(1, 20), min_size=2, max_size=9), st.integers(0, 1000))
@settings(max_examples=10)
def test_a_sentence_has_the_same_hypotheses_alone(lengths, seed):
    model, sample = model_of("all skips, kernel 5"), batch(lengths, seed)
    together = search(model, sample)
    one = batch(lengths, seed)
    one["net_input"]["src_tokens"] = sample["net_input"]["src_tokens"][:1]
    one["net_input"]["src_lengths"] = sample["net_input"]["src_lengths"][:1]
    (alone,) = search(model, one)
    assert [found["tokens"].tolist() for found in alone] == [found["tokens"].tolist() for found in together[0]]


@needs_bfloat16
def test_it_goes_with_a_shortlist_and_beside_float32():
    model, sample = model_of(), batch([3, 9, 1, 14], seed=1)
    everything = Shortlist(torch.arange(len(WORDS)), {}, len(WORDS))
    halves = search(model, sample, shortlist=everything)
    for one, other in zip(halves, search(model, sample), strict=True):
        assert [found["tokens"].tolist() for found in one] == [found["tokens"].tolist() for found in other]
    scores = [torch.stack([one["score"] for one in found[0]]) for found in (halves, search(model, sample, False))]
    assert not torch.equal(*scores)


@needs_bfloat16
@pytest.mark.slow
def test_fairseq_generate_has_the_option(home, tmp_path):
    save_loud(home / DATA, tmp_path / "model.pt")
    flags = ["--path", tmp_path / "model.pt", "--beam", 2, "--max-len-b", 9]
    native_search.logged.clear()
    scores = []
    for more in (["--native-bf16"], []):
        lines = generated(home / DATA, tmp_path, *flags, *more).splitlines()
        scores.append([float(line.split("\t")[1]) for line in lines if line.startswith("H-")])
    assert scores[0] != scores[1] and not native_search.logged
    torch.testing.assert_close(*map(torch.tensor, scores), atol=0.3, rtol=0)  # of two precisions


def slower(precision: bool):
    """A search that takes longer in that precision."""
    clock = [0.0]

    def search(bfloat16: bool):
        clock[0] += 0.002 if bfloat16 is precision else 0.001

    return search, clock


@pytest.mark.parametrize("bfloat16", [True, False], ids=["bfloat16", "float32"])
def test_the_faster_precision_is_chosen_and_a_slower_bfloat16_is_logged(bfloat16, monkeypatch, caplog):
    search, clock = slower(bfloat16)
    monkeypatch.setattr(native_search.time, "perf_counter", lambda: clock[0])
    assert is_faster_in_bfloat16(search, "3 tokens of 32 sentences, beam 5") is not bfloat16
    expected = (
        "native code computes in float32 instead of bfloat16, which is slower on this processor: "
        "3 tokens of 32 sentences, beam 5 take 2.0 ms in bfloat16 and 1.0 ms in float32"
    )
    assert caplog.messages == ([expected] if bfloat16 else [])


@needs_bfloat16
def test_where_bfloat16_is_slower_the_search_is_that_of_float32(monkeypatch):
    model, sample = model_of(), batch([3, 9, 1, 14], seed=1)
    timed = []
    monkeypatch.setattr(
        native_search, "is_faster_in_bfloat16", lambda search, title: (search(True), timed.append(title))[0]
    )
    model_cache.cached_models.clear()
    for _ in range(2):
        assert_same(search(model, sample), search(model, sample, False))
    assert timed == ["3 tokens of 4 sentences, beam 4"]
    model_cache.cached_models.clear()


def test_a_processor_without_bfloat16_is_refused(monkeypatch):
    monkeypatch.setattr(native_library, "has_bfloat16", lambda: False)
    with pytest.raises(UserError, match="--native-bf16: this processor, or the compiler"):
        require_bfloat16("--native-bf16")
