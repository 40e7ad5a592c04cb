"""A mask for an attention: what it hides reaches nobody, and what it adds only the softmax sees."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.attention.inputs import Passed
from ea_fairseq.kernels import dispatch as backends
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from loops import Evolving, attend
from tiny import KERNELS

WORDS = 5
seeds = st.integers(0, 2**32 - 1)


def draw_attention(kind, kernel=3, alpha=0.4, beta=0.3, **flags):
    evolution = Evolution(WINDOWS[kind], alpha, beta, kernel)
    attention = EvolvingAttention(8, 2, evolution, encoder_decoder_attention=kind == "cross", **flags)
    if attention.conv is not None:
        torch.nn.init.normal_(attention.conv.weight)
    return attention.eval()


def draw_mask(hides: bool, adds: bool) -> torch.Tensor:
    """(WORDS, WORDS) numbers to add; each query sees itself."""
    numbers = 3 * torch.randn(WORDS, WORDS) * adds
    hidden = (torch.rand(WORDS, WORDS) < 0.4) & ~torch.eye(WORDS, dtype=torch.bool)
    return numbers.masked_fill(hidden & hides, -torch.inf)


def causal(kind: str) -> torch.Tensor:
    return torch.full((WORDS, WORDS), -torch.inf).triu(1) if kind == "decoder" else torch.zeros(WORDS, WORDS)


@given(
    seed=seeds,
    kind=st.sampled_from(list(WINDOWS)),
    kernel=st.sampled_from(KERNELS),
    weights=st.sampled_from([(0.4, 0.3), (0.4, 0.0), (0.0, 0.3)]),
    hides=st.booleans(),
    adds=st.booleans(),
    backend=st.sampled_from(["reference", "auto"]),
    need_weights=st.booleans(),
)
@settings(max_examples=40)
@torch.no_grad()
def test_an_attention_with_a_mask_equals_loops(seed, kind, kernel, weights, hides, adds, backend, need_weights):
    torch.manual_seed(seed)
    attention, (alpha, beta) = draw_attention(kind, kernel, *weights), weights
    mask = draw_mask(hides, adds) + causal(kind)
    query, key = torch.randn(2, WORDS, 3, 8)
    if kind != "cross":
        key = query
    previous = torch.randn(3, 2, WORDS, WORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "backend", backend)
        below = Passed(previous)
        output, _, passed = attention(query, key, key, attn_mask=mask, previous=below, need_weights=need_weights)
    exact = attention.double()
    for sentence in range(3):
        expected, of_logits = attend(
            exact, query[:, sentence].double(), key[:, sentence].double(), kind, previous[sentence].double(),
            WORDS, WORDS, Evolving({kind: alpha}, {kind: beta}), mask.double(),
        )  # fmt: skip
        torch.testing.assert_close(output[:, sentence].double(), expected, rtol=1e-5, atol=1e-5)
        if attention.passes_logits:
            found, seen = passed.logits[sentence], mask != -torch.inf
            torch.testing.assert_close(found[:, seen].double(), of_logits[:, seen], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        ("auto", torch.float32),
        ("auto", torch.bfloat16),
        ("triton", torch.float32),
        ("reference", torch.float32),
        ("reference", torch.bfloat16),
        ("reference", torch.float16),
    ],
    ids=str,
)
def test_whatever_others_write_for_minus_infinity_hides_the_same(backend, dtype, monkeypatch):
    """To the last bit, in the gradients, too."""
    monkeypatch.setattr(backends, "backend", backend)
    torch.manual_seed(1)
    attention = draw_attention("decoder").to(dtype)
    words = torch.randn(WORDS, 3, 8, dtype=dtype, requires_grad=True)
    hidden = torch.ones(WORDS, WORDS, dtype=torch.bool).triu(1)
    masks = [hidden, *(torch.zeros(WORDS, WORDS).masked_fill(hidden, low) for low in (-torch.inf, -1e9, -1e4))]
    if backend != "triton":  # whose interpreter takes its time
        masks += [mask.half() for mask in masks[1:]] + [masks[3].bfloat16()]
    results = []
    for mask in masks:
        output, _, (logits, _) = attention(words, words, words, attn_mask=mask, need_weights=False)
        output, logits = output.float(), logits.masked_fill(hidden, 0.0).float()
        results.append([output, logits, *torch.autograd.grad(output.cos().sum() + logits.cos().sum(), [words])])
    for result in results[1:]:
        assert all(map(torch.equal, result, results[0]))


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_the_convolution_and_the_next_layer_do_not_see_what_is_added(backend, monkeypatch):
    monkeypatch.setattr(backends, "backend", backend)
    torch.manual_seed(1)
    attention, words = draw_attention("encoder"), torch.randn(WORDS, 3, 8)
    plain, _, (expected, _) = attention(words, words, words, need_weights=False)
    output, _, (logits, _) = attention(words, words, words, attn_mask=draw_mask(False, True), need_weights=False)
    torch.testing.assert_close(logits, expected)
    assert (output - plain).abs().max() > 0.01


def test_a_mask_that_is_learned_has_gradients():
    attention, words = draw_attention("encoder"), torch.randn(WORDS, 3, 8)
    mask = torch.zeros(WORDS, WORDS, requires_grad=True)
    attention(words, words, words, attn_mask=mask)[0].cos().sum().backward()
    assert mask.grad.ne(0).all()


@torch.no_grad()
@given(
    seed=seeds,
    kernel=st.sampled_from(KERNELS),
    weights=st.sampled_from([(0.4, 0.3), (0.4, 0.0), (0.0, 0.0)]),
    kind=st.sampled_from(["decoder", "cross"]),
    true=st.booleans(),
    backend=st.sampled_from(["reference", "auto"]),
)
@settings(max_examples=25)
def test_steps_with_rows_of_a_mask_equal_a_pass_with_all_of_it(seed, kernel, weights, kind, true, backend):
    torch.manual_seed(seed)
    attention = draw_attention(kind, kernel, *weights, self_attention=kind == "decoder")
    mask = draw_mask(True, not true) + causal(kind)
    if true:
        mask = mask.isinf()
    words, source = torch.randn(2, WORDS, 3, 8)
    memory = source if kind == "cross" else words
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "backend", backend)
        expected, *_ = attention(words, memory, memory, attn_mask=mask, need_weights=False)
        state = {}
        for step in range(WORDS):
            query, row = words[step : step + 1], mask[step : step + 1]
            if kind == "decoder":
                memory, row = query, row[:, : step + 1]
            options = {"incremental_state": state, "static_kv": kind == "cross", "need_weights": False}
            output, *_ = attention(query, memory, memory, attn_mask=row, **options)
            torch.testing.assert_close(output[0], expected[step], rtol=1e-4, atol=1e-5)


def off_and_fairseqs():
    """An attention whose evolution is off, and fairseq's with the same parameters."""
    torch.manual_seed(1)
    ours = draw_attention("encoder", alpha=0.0, beta=0.0, self_attention=True)
    fairseqs = MultiheadAttention(8, 2, self_attention=True).eval()
    ours.load_state_dict(fairseqs.state_dict())
    return ours, fairseqs


@pytest.mark.parametrize("make", [lambda mask: mask, lambda mask: mask.expand(6, -1, -1)], ids=["2-D", "3-D"])
@pytest.mark.parametrize("lowest", [-torch.inf, -1e9, None])
def test_with_the_evolution_off_a_mask_is_fairseqs_to_the_last_bit(make, lowest):
    words, numbers = torch.randn(WORDS, 3, 8), draw_mask(True, True)
    mask = make(numbers.isinf() if lowest is None else numbers.clamp(min=lowest))
    results = [attention(words, words, words, attn_mask=mask)[:2] for attention in off_and_fairseqs()]
    assert all(map(torch.equal, *results))


@torch.no_grad()
def test_with_the_evolution_off_steps_are_fairseqs_to_the_last_bit():
    """But for a mask of bool, which fairseq's steps would add as ones."""
    words, numbers = torch.randn(WORDS, 3, 8), draw_mask(True, True)
    pair = off_and_fairseqs()
    for masks in ((numbers, numbers), (numbers.isinf(), torch.zeros_like(numbers).masked_fill(numbers.isinf(), -1e30))):
        states = {}, {}
        for step in range(WORDS):
            query = words[step : step + 1]
            results = [
                attention(query, query, query, attn_mask=mask[step : step + 1, : step + 1], incremental_state=state)[0]
                for attention, mask, state in zip(pair, masks, states, strict=True)
            ]
            assert torch.equal(*results)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (torch.zeros(6, WORDS, WORDS), r"attn_mask has the size \(6, 5, 5\), which does not spread over \(5, 5\)"),
        (torch.zeros(WORDS, 4).bool(), r"attn_mask has the size \(5, 4\), which does not spread over \(5, 5\)"),
        (
            torch.zeros(WORDS, WORDS).int(),
            "attn_mask must be of bool or of numbers to add to logits, not",
        ),
    ],
    ids=["of heads", "of other words", "of integers"],
)
def test_other_masks_are_refused(backend, mask, sentence, monkeypatch):
    monkeypatch.setattr(backends, "backend", backend)
    words = torch.randn(WORDS, 3, 8)
    with pytest.raises((TypeError, ValueError), match=sentence):
        draw_attention("encoder")(words, words, words, attn_mask=mask)
