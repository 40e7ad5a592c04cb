"""Beam search in native code finds the hypotheses that fairseq's search finds, with their scores."""

import copy
import gc
import logging
import weakref
from contextlib import suppress

import pytest
import torch
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from ea_fairseq.search import native_search
from model_checks import native_only
from searches import MODELS, WORDS, assert_same, batch, model_of
from tiny import build_loud

pytestmark = native_only

LONGER_THAN_POSITIONS = "native search does not support sentences longer than the positional embeddings"


def both(model, sample: dict, prefix: torch.Tensor | None = None, **options) -> tuple[list, list]:
    """The hypotheses of native code and of fairseq's search."""
    generator = SequenceGenerator([model], WORDS, **options)
    native_search.logged.clear()
    found = generator.generate([model], sample, prefix_tokens=prefix)
    assert not native_search.logged, "fairseq's search translated instead"
    return found, native_search.fairseq_generate(generator, sample, prefix)


def assert_finds_the_same(model, sample: dict, **options) -> None:
    """Candidates whose scores tie in float32 may fall either way, and one of them may lead to another end of the beam:
    then the search in float64 decides."""
    found, expected = both(model, sample, **options)
    try:
        assert_same(found, expected)
    except AssertionError:
        exact = SequenceGenerator([copy.deepcopy(model).double()], WORDS, **options)
        assert_same(found, native_search.fairseq_generate(exact, sample, None))


@pytest.mark.parametrize("name", MODELS)
def test_native_search_finds_what_fairseqs_search_finds(name):
    found, expected = both(model_of(name), batch([3, 1, 9, 17, 5], seed=1), beam_size=4, max_len_b=25)
    assert_same(found, expected)


@given(
    beam=st.integers(1, 7),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    limits=st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 4)),
    penalties=st.tuples(st.floats(0.0, 2.0), st.floats(-3.0, 3.0), st.booleans()),
    seed=st.integers(0, 1000),
)
@example(beam=3, lengths=[1, 1, 9, 20, 20, 8], limits=(2, 1, 0), penalties=(0.0, 0.0, False), seed=384)
@settings(max_examples=20)
def test_native_search_has_fairseqs_options(beam, lengths, limits, penalties, seed):
    (max_len_a, max_len_b, min_len), (len_penalty, unk_penalty, normalize_scores) = limits, penalties
    options = {"max_len_a": max_len_a, "max_len_b": max_len_b, "min_len": min(min_len, max_len_b)}
    options |= {"len_penalty": len_penalty, "unk_penalty": unk_penalty, "normalize_scores": normalize_scores}
    assert_finds_the_same(MODEL, batch(lengths, seed), beam_size=beam, **options)


MODEL = model_of("all skips, kernel 5")
WORD = st.integers(0, len(WORDS) - 1)


@given(
    beam=st.integers(1, 7),
    sentences=st.lists(st.tuples(st.integers(1, 20), st.lists(WORD, max_size=6)), min_size=1, max_size=6),
    ngram=st.integers(0, 4),
    temperature=st.sampled_from([1.0, 0.3, 2.0]),
    limits=st.tuples(st.booleans(), st.integers(0, 6)),
    suppressed=st.sets(st.integers(0, 39).map("w{}".format), max_size=3),
    seed=st.integers(0, 1000),
)
@settings(max_examples=20)
def test_native_search_has_fairseqs_options_that_forbid_words(
    beam, sentences, ngram, temperature, limits, suppressed, seed
):
    lengths, prefixes = zip(*sentences, strict=True)
    prefix = pad_sequence([torch.tensor(one, dtype=torch.int64) for one in prefixes], True, WORDS.pad())
    options = {"no_repeat_ngram_size": ngram, "temperature": temperature, "tokens_to_suppress": sorted(suppressed)}
    options |= {"beam_size": beam, "match_source_len": limits[0], "min_len": limits[1] % 2, "max_len_b": limits[1] + 6}
    sample = batch(lengths, seed)
    generator = SequenceGenerator([MODEL], WORDS, **options)
    try:
        expected = native_search.fairseq_generate(generator, sample, prefix)
    except AssertionError:  # no hypothesis may end, or one searches a word before the end that it is given
        with pytest.raises(AssertionError):
            generator.generate([MODEL], sample, prefix_tokens=prefix)
        return
    assert_same(generator.generate([MODEL], sample, prefix_tokens=prefix), expected)


PREFIX = torch.tensor([[5, 9, 5, 9], [7, WORDS.pad(), WORDS.pad(), 8], [6, 8, WORDS.eos(), WORDS.pad()]])


def test_hypotheses_begin_with_their_prefix():
    found, expected = both(MODEL, batch([3, 4, 5], seed=11), PREFIX, beam_size=4, max_len_b=9)
    assert_same(found, expected)
    for hypotheses, prefix in zip(found, PREFIX, strict=True):
        for tokens in (one["tokens"][: len(prefix)] for one in hypotheses):
            given = prefix[: len(tokens)]
            assert torch.where(given.eq(WORDS.pad()), tokens, given).tolist() == tokens.tolist()
    assert [one["tokens"].tolist() for one in found[2]] == 4 * [[6, 8, WORDS.eos()]]


@pytest.mark.parametrize("prefix", [[[WORDS.eos()]], [[WORDS.pad(), WORDS.eos()]]])
def test_a_prefix_that_fairseqs_search_fails_at_is_left_to_it(prefix):
    generator = SequenceGenerator([MODEL], WORDS, beam_size=2, max_len_b=6)
    with pytest.raises(AssertionError):
        generator.generate([MODEL], batch([3], seed=10), prefix_tokens=torch.tensor(prefix))


@pytest.mark.parametrize("size", [2, 3])
def test_no_ngram_is_repeated(size):
    model, sample, options = model_of("off"), batch([9, 12], seed=12), {"beam_size": 3, "max_len_b": 30, "min_len": 25}
    free, _ = both(model, sample, **options)
    found, expected = both(model, sample, no_repeat_ngram_size=size, **options)
    assert_same(found, expected)
    assert repeats(free, size) and not repeats(found, size)


def repeats(found: list, size: int) -> bool:
    """Whether a hypothesis has an n-gram twice."""
    hypotheses = [one["tokens"].tolist() for hypotheses in found for one in hypotheses]
    ngrams = [list(zip(*(tokens[i:] for i in range(size)), strict=False)) for tokens in hypotheses]
    return any(len(set(one)) < len(one) for one in ngrams)


def test_more_sentences_than_a_thread_takes_at_once():
    threads = torch.get_num_threads()
    sample = batch([1 + i % 13 for i in range(70)], seed=2)
    try:
        torch.set_num_threads(1)
        alone, expected = both(MODEL, sample, beam_size=5, max_len_b=30)
        torch.set_num_threads(3)
        together, _ = both(MODEL, sample, beam_size=5, max_len_b=30)
    finally:
        torch.set_num_threads(threads)
    assert_same(alone, expected)
    assert_same(together, expected)
    assert len({len(one["tokens"]) for hypotheses in expected for one in hypotheses}) > 3


def test_parameters_that_change_are_packed_anew():
    model = model_of()
    before, _ = both(model, batch([4, 6], seed=3), beam_size=3, max_len_b=10)
    with torch.no_grad():
        model.decoder.layers[1].fc2.weight.add_(torch.randn(8, 8))
    after, expected = both(model, batch([4, 6], seed=3), beam_size=3, max_len_b=10)
    assert_same(after, expected)
    assert before[0][0]["score"] != after[0][0]["score"]


def replace_linear(model):
    model.decoder.layers[1].fc2 = nn.Linear(8, 8)


def replace_projection(model):
    model.encoder.layers[0].self_attn.q_proj = nn.Linear(8, 8)


def replace_parameter(model):
    model.decoder.output_projection.weight = nn.Parameter(torch.randn_like(model.decoder.output_projection.weight))


def remove_layer(model):
    del model.decoder.layers[1]


@pytest.mark.parametrize("change", [replace_linear, replace_projection, replace_parameter, remove_layer])
def test_modules_and_parameters_that_are_replaced_are_packed_anew(change):
    model = model_of()
    before, _ = both(model, batch([4, 6], seed=3), beam_size=3, max_len_b=10)
    change(model)
    after, expected = both(model, batch([4, 6], seed=3), beam_size=3, max_len_b=10)
    assert_same(after, expected)
    assert before[0][0]["score"] != after[0][0]["score"]


def test_a_model_that_was_translated_with_can_go():
    model = build_loud(seed=5)
    model.make_generation_fast_(need_attn=False)
    both(model, batch([4], seed=3), beam_size=2, max_len_b=5)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("penalty", [-1, 0, 2, 0.6])
def test_a_length_penalty_may_be_a_whole_number(penalty):
    found, expected = both(model_of(), batch([4, 6], seed=3), beam_size=3, max_len_b=10, len_penalty=penalty)
    assert_same(found, expected)


@pytest.mark.parametrize("beam", [0, -1])
def test_a_beam_without_hypotheses_is_refused(beam):
    with pytest.raises(UserError, match=f"^--beam must be at least 1, not {beam}"):
        SequenceGenerator([model_of()], WORDS, beam_size=beam).generate([], batch([3], seed=1))


def test_alpha_and_beta_that_grow_are_taken_anew():
    model = build_loud(ea_warmup_updates=4)
    model.make_generation_fast_(need_attn=False)
    scores = []
    for updates in (1, 2, 4):
        model.set_num_updates(updates)
        found, expected = both(model, batch([4, 6], seed=7), beam_size=3, max_len_b=10)
        assert_same(found, expected)
        scores.append(found[0][0]["score"].item())
    assert len(set(scores)) == 3


def test_a_sentence_of_padding_is_left_to_fairseqs_search():
    model, sample = model_of(), batch([3, 2], seed=9)
    sample["net_input"]["src_tokens"][1] = WORDS.pad()
    native_search.logged.clear()
    hypotheses = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=5).generate([model], sample)
    assert len(hypotheses) == 2 and native_search.logged == {"native search does not support empty sentences"}


def test_a_sentence_longer_than_the_positional_embeddings_is_left_to_fairseqs_search():
    model = model_of("learned positions")
    longest = model.encoder.embed_positions.max_positions
    generator = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=5)
    native_search.logged.clear()
    generator.generate([model], batch([longest - 1], seed=1))  # and the end of the sentence
    assert not native_search.logged
    for _ in range(2):
        with pytest.raises(IndexError):
            generator.generate([model], batch([longest], seed=1))
    assert native_search.logged == {LONGER_THAN_POSITIONS}
    generator = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=2 * longest, max_len=2 * longest)
    native_search.logged.clear()
    with suppress(IndexError):  # of fairseq's search, where no hypothesis ends before
        generator.generate([model], batch([3], seed=1))
    assert native_search.logged == {LONGER_THAN_POSITIONS}


def test_a_token_outside_the_vocabulary_is_refused():
    model, sample = model_of(), batch([3], seed=8)
    generator = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=5)
    for token in (len(WORDS), -1):
        with pytest.raises(IndexError, match="not one of the 44"):
            generator.generate([model], sample, prefix_tokens=torch.tensor([[5, token]]))
    for token in (len(WORDS), -1):
        sample["net_input"]["src_tokens"][0, 1] = token
        with pytest.raises(IndexError, match="not one of the 44"):
            generator.generate([model], sample)


def ask_for_attention(model, monkeypatch):
    model.decoder.layers[-1].need_attn = True


def use_plain_pytorch(model, monkeypatch):
    monkeypatch.setattr(dispatch, "backend", "reference")


def add_hook(model, monkeypatch):
    model.decoder.layers[0].fc1.register_forward_hook(lambda *_: None)


def retain_dropout(model, monkeypatch):
    model.decoder.layers[0].dropout_module.p = 0.5
    model.decoder.layers[0].dropout_module.apply_during_inference = True


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def use_another_layer(model, monkeypatch):
    model.decoder.layers[0].fc1 = Doubled(8, 8)


def use_another_norm(model, monkeypatch):
    model.encoder.layers[0].final_layer_norm = type("Norm", (nn.LayerNorm,), {})(8)


class Wrapped(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, *args, **kwargs):
        return self.attention(*args, **kwargs)


def wrap_an_attention(model, monkeypatch):
    model.decoder.layers[0].self_attn = Wrapped(model.decoder.layers[0].self_attn)


CHANGES = {
    "an attention is a Wrapped": wrap_an_attention,
    "attention weights are requested": ask_for_attention,
    "native code is not available": use_plain_pytorch,
    "a hook": add_hook,
    "a linear layer or a layer norm is": use_another_layer,
    "a layer norm is not of torch's own class": use_another_norm,
    "dropout is retained": retain_dropout,
}


@pytest.mark.parametrize("reason", CHANGES)
def test_an_unsupported_model_is_left_to_fairseqs_search(reason, monkeypatch, caplog):
    model = model_of()
    generator = SequenceGenerator([model], WORDS, beam_size=3, max_len_b=8)
    sample = batch([3, 5], seed=4)
    assert not generator.generate([model], sample)[0][0]["attention"].numel()
    native_search.logged.clear()
    CHANGES[reason](model, monkeypatch)
    with caplog.at_level(logging.DEBUG):
        hypotheses = [generator.generate([model], sample) for _ in range(2)]
    assert len(hypotheses[0]) == 2
    assert sum(reason in message for message in caplog.messages) == 1


@pytest.mark.parametrize(
    ("part", "function", "reason"),
    [
        ("", "get_normalized_probs", "of a derived class"),
        ("encoder", "forward_embedding", "of a derived class"),
        ("decoder", "extract_features", "of a derived class"),
        ("encoder.embed_positions", "forward", "of a derived class"),
        ("encoder.layers.1", "forward", "of a derived class"),
        ("decoder.layers.0", "forward", "of a derived class"),
        ("decoder.layers.0.encoder_attn", "forward", "native code does not support"),
    ],
)
def test_a_derived_class_is_left_to_fairseqs_search(part, function, reason):
    model = model_of()
    module = model.get_submodule(part)
    kind = type(module)
    module.__class__ = type(
        "Own", (kind,), {function: lambda *args, **others: getattr(kind, function)(*args, **others)}
    )
    native_search.logged.clear()
    SequenceGenerator([model], WORDS, beam_size=2, max_len_b=8).generate([model], batch([3, 5], seed=5))
    (reason_logged,) = native_search.logged
    assert reason in reason_logged


OPTIONS = {
    "other kinds of search": {"search_strategy": DiverseBeamSearch(WORDS, num_groups=2, diversity_strength=0.5)},
    "--match-source-len for sentences this long": {"match_source_len": True, "max_len": 4},
    "a beam as wide as the vocabulary": {"beam_size": 21},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_unsupported_options_are_left_to_fairseqs_search(option):
    model = model_of()
    generator = SequenceGenerator([model], WORDS, **{"beam_size": 2, "max_len_b": 8, **OPTIONS[option]})
    native_search.logged.clear()
    generator.generate([model], batch([3, 5], seed=5))
    assert native_search.logged == {f"native search does not support {option}"}


def test_a_model_without_finite_scores_is_left_to_fairseqs_search():
    model = model_of()
    with torch.no_grad():
        model.decoder.output_projection.weight[:] = torch.nan
    generator = SequenceGenerator([model], WORDS, beam_size=2, max_len_b=5)
    native_search.logged.clear()
    with pytest.raises(AssertionError):  # fairseq finds no word either
        generator.generate([model], batch([3], seed=6))
    assert native_search.logged == {"no token has a finite score"}
