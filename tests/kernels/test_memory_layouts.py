"""Whatever the layout, type and size of what an attention reads, kernels do with it what plain PyTorch does."""

from collections import Counter

import pytest
import torch

from beam_search import found, generator_of, sample
from ea_fairseq.attention.beam import BeamState
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.kernels import dispatch as backends
from ea_fairseq.kernels.window import CROSS_WINDOW, DECODER_WINDOW, ENCODER_WINDOW
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from model_checks import SETS, native_only
from native_cases import check
from tiny import SKIPS, build_loud, random_tokens

KERNELS = [pytest.param("native", marks=native_only), "triton"]
backends_with_kernels = pytest.mark.parametrize("backend", KERNELS)


@pytest.mark.parametrize("instructions", SETS)
def test_native_code_does_what_torch_does(instructions):
    """With any call, right or wrong; tests/kernels/test_sanitizers.py makes more of them."""
    of_kind = Counter(check(seed, instructions).partition(": ")[::2] for seed in range(120))
    for kind in ("training", "decoding", "operators"):
        assert of_kind[kind, "kernels"] > 5
    assert of_kind["training", "refused"] > 2
    assert of_kind["operators", "refused"] > 2


def outcomes(backend, monkeypatch, call):
    """What a call returns with kernels and in plain PyTorch."""
    results = []
    for chosen in (backend, "reference"):
        monkeypatch.setattr(backends, "backend", chosen)
        results.append(call())
    return results


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_turned_memory_of_source_words_gives_the_same_translations(backend, monkeypatch):
    monkeypatch.setattr(backends, "backend", backend)
    model, batch = build_loud(**SKIPS), sample(1)
    words = batch["net_input"]["src_tokens"]
    words[0, :3] = words[2, :1] = model.encoder.padding_idx
    expected = found(generator_of([model]).generate([model], batch))
    batch["net_input"]["src_tokens"] = words.t().contiguous().t()
    assert found(generator_of([model]).generate([model], batch)) == expected


def small_attention(window=ENCODER_WINDOW, beta=0.3, **kind):
    torch.manual_seed(1)
    return EvolvingAttention(6, 2, Evolution(window, alpha=0.4, beta=beta, kernel_size=3), **kind)


MASKS = {
    "a column for all keys": lambda mask: mask[:, :1],
    "a row for all sentences": lambda mask: mask[:1],
    "turned": lambda mask: mask.t().contiguous().t(),
    "a part of another": lambda mask: torch.ones(3, 10, dtype=torch.bool).index_copy(1, torch.arange(0, 10, 2), mask)[
        :, ::2
    ],
    "numbers": lambda mask: 3 * mask.long(),
}


@backends_with_kernels
@pytest.mark.parametrize("make", MASKS.values(), ids=MASKS)
def test_masks_of_any_type_and_layout(backend, make, monkeypatch):
    """Of keys, of queries and of pairs of them, of which the last two each belong to one of the first."""
    attention, words = small_attention(), torch.randn(5, 3, 6)
    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]).bool()
    masks = {"key_padding_mask": make(mask), "query_padding_mask": make(mask)}
    real = ~make(mask).bool().expand(3, 5).t()
    for need_weights in (False, True):
        results = outcomes(
            backend,
            monkeypatch,
            lambda need=need_weights: attention(words, words, words, need_weights=need, **masks)[0],
        )
        torch.testing.assert_close(*(output[real] for output in results))


@backends_with_kernels
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        {"previous": torch.zeros(3, 2, 5, 4)},
        {"previous": torch.zeros(2, 2, 5, 5)},
        {"previous": torch.zeros(2, 5, 5)},
        {"previous": torch.zeros(3, 2, 5, 5, dtype=torch.float64)},
        {"key_padding_mask": torch.zeros(3, 4, dtype=torch.bool)},
        {"key_padding_mask": torch.zeros(6, 5, dtype=torch.bool)},
        {"key_padding_mask": torch.zeros(5, dtype=torch.bool)},
        {"query_padding_mask": torch.zeros(3, 6, dtype=torch.bool)},
        {"attn_mask": torch.zeros(4, 5)},
        {"attn_mask": torch.zeros(3, 5, 5)},
        {"value": torch.zeros(4, 3, 6)},
        {"value": torch.zeros(5, 2, 6)},
        {"query": torch.zeros(5, 2, 6)},
    ],
)
def test_wrong_sizes_and_types_are_refused(backend, need_weights, wrong, monkeypatch):
    words = torch.randn(5, 3, 6)
    inputs = {"query": words, "key": words, "value": words, "previous": torch.zeros(3, 2, 5, 5), **wrong}
    (name,) = wrong

    def refusal():
        with pytest.raises((ValueError, TypeError, RuntimeError)) as refused:
            small_attention()(**inputs, need_weights=need_weights)
        return str(refused.value)

    for sentence in outcomes(backend, monkeypatch, refusal):
        if name.endswith("mask"):
            assert sentence.startswith(f"{name} has the size {tuple(wrong[name].shape)}, which does not spread over")


@backends_with_kernels
@pytest.mark.parametrize("beta", [0.0, 0.3], ids=["skip", "convolution"])
@pytest.mark.parametrize(("queries", "keys"), [(0, 4), (4, 0), (0, 0)])
def test_no_words(backend, beta, queries, keys, monkeypatch):
    """PyTorch's convolution refuses maps of nothing; without one there is an output for each query."""
    attention = small_attention(beta=beta)
    query, key = (torch.randn(length, 3, 6, requires_grad=True) for length in (queries, keys))

    def call():
        try:
            output, _, (logits, _) = attention(query, key, key, need_weights=False)
        except RuntimeError as error:
            return str(error)
        gradients = torch.autograd.grad(output.sum() + logits.sum(), [query, key, *attention.parameters()])
        return [output, logits, *gradients]

    results, expected = outcomes(backend, monkeypatch, call)
    assert isinstance(expected, str) == (beta > 0)
    if isinstance(expected, str):
        assert results == expected
    else:
        torch.testing.assert_close(results, expected)


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("beta", [0.0, 0.3], ids=["skip", "convolution"])
def test_steps_without_source_words(backend, beta, monkeypatch):
    monkeypatch.setattr(backends, "backend", backend)
    attention = small_attention(CROSS_WINDOW, beta, encoder_decoder_attention=True)
    nothing = torch.zeros(0, 2, 6)
    state = {}
    if beta:
        with pytest.raises(RuntimeError, match="size"):
            attention(torch.randn(1, 2, 6), nothing, nothing, incremental_state=state, static_kv=True)
    else:
        output, *_ = attention(torch.randn(1, 2, 6), nothing, nothing, incremental_state=state, static_kv=True)
        assert torch.equal(output, attention.out_proj(torch.zeros(1, 2, 6)))


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_step_is_of_one_word_and_of_sentences_that_there_are(backend, monkeypatch):
    monkeypatch.setattr(backends, "backend", backend)
    words = torch.randn(2, 3, 6)
    with pytest.raises(ValueError, match="one token of each hypothesis, not 2"):
        small_attention(DECODER_WINDOW, self_attention=True)(words, words, words, incremental_state={})
    model, tokens = build_loud(), random_tokens(torch.Generator().manual_seed(1), 3, 4)
    encoded = model.encoder.reorder_encoder_out(model.encoder(tokens), torch.tensor([0, -1, 1]))
    with pytest.raises(ValueError, match="3 hypotheses translate more than the encoder's 3 sentences"):
        model.decoder(tokens[:, :1], encoded, incremental_state={})


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_an_attention_that_joins_late_reads_zeros_of_the_steps_before(backend, monkeypatch):
    """Though there were more hypotheses then."""
    monkeypatch.setattr(backends, "backend", backend)
    attention = small_attention(DECODER_WINDOW, self_attention=True)
    hypotheses = BeamState(torch.arange(900))
    hypotheses.advance()
    hypotheses.reorder(torch.tensor([899, 700]))
    hypotheses.advance()
    words = torch.randn(1, 2, 6)
    output, weights, _ = attention(words, words, words, incremental_state={BeamState.KEY: hypotheses})
    assert output.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1))
