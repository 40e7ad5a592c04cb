"""The native code for CPUs equals the equations in float64, for each instruction set that this processor has."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import library

from ea_fairseq.attention.beam import BeamState
from ea_fairseq.attention.cache import AttentionCache
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.attend import attend, split_qkv
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu import step as native_step
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.kernels.window import CROSS_WINDOW, WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from evolution_cases import CONVOLUTIONS, MIXES, assert_close, draw_case, mixes, sets_of_absent
from model_checks import SETS, native_only

pytestmark = native_only

TOLERANCES = {torch.float32: 1e-6, torch.bfloat16: 2e-2}
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", params=SETS)
def instructions(request):
    """Has native code use an instruction set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_library, "instruction_set", lambda: request.param)
        yield


@given(
    seed=seeds,
    sizes=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4, 7, 8]), st.integers(1, 20), st.integers(1, 40)),
    convolution=st.sampled_from(CONVOLUTIONS),
    dtype=st.sampled_from(list(TOLERANCES)),
    absent=sets_of_absent,
    weights=mixes,
    by_word=st.booleans(),
)
@settings(max_examples=80)
def test_evolution(instructions, seed, sizes, convolution, dtype, absent, weights, by_word):
    """With NaN in all entries that must not be read."""
    case = draw_case(seed, sizes, *convolution, dtype, absent, weights, by_word=by_word)
    assert_close(case.operate(native_evolution), case.expected(), TOLERANCES[dtype], case)


@pytest.mark.parametrize("sizes", [(1, 16, 40, 500), (1, 20, 3, 5)], ids=["many rows", "many heads"])
@pytest.mark.parametrize("by_word", [False, True], ids=["by head", "by word"])
def test_large_evolution(instructions, sizes, by_word):
    case = draw_case(1, sizes, CROSS_WINDOW, 5, absent=frozenset({"future"}), by_word=by_word)
    case.weight /= 20
    case.bias.copy_(torch.tensor([4.0, -4.0]).repeat(sizes[1] // 2))  # far from ReLU's kink
    assert_close(case.operate(native_evolution), case.expected(), 1e-6, case)


def draw_attention(seed, kind, kernel, alpha, sizes, shared=True, learned=""):
    """An attention, what it reads (all take gradients) and its masks, of the sizes (B, K, T, S, d).

    Args:
        shared: keys and values are of the same words, and in self-attention queries, too.
        learned: by what weights with gradients differ, ``head`` or ``input``; nothing if they are fixed.
    """
    torch.manual_seed(seed)
    sentences, heads, queries, keys, width = sizes
    keys = queries if kind != "cross" else keys
    evolution = Evolution(
        WINDOWS[kind],
        alpha=alpha,
        beta=0.3 if kernel else 0.0,
        kernel_size=kernel or 1,
        learned=bool(learned),
        by_input=learned == "input",
    )
    attention = EvolvingAttention(heads * width, heads, evolution, encoder_decoder_attention=kind == "cross")
    for weights in attention.learned.parameters() if learned else ():
        weights.data += 0.5 * weights.size(-1) ** -0.5 * torch.randn(weights.shape)
    shapes = {
        "query": (queries, sentences, heads * width),
        "key": (keys, sentences, heads * width),
        "value": (keys, sentences, heads * width),
        "previous": (sentences, heads, queries, keys),
    }
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    if shared:
        tensors["value"] = tensors["key"] = tensors["key" if kind == "cross" else "query"]
    masks = {"key_padding_mask": torch.rand(sentences, keys) < 0.2}
    if kind == "decoder":
        masks["attn_mask"] = torch.full((queries, keys), -torch.inf).triu(1)
    else:
        masks["query_padding_mask"] = torch.rand(sentences, queries) < 0.2
    return attention, tensors, masks


def outputs_and_gradients(attention, tensors, masks, dtype):
    """Output, logits of words, and the gradients of what the attention reads and of its parameters, all in float64."""
    attention.to(dtype).zero_grad()
    read = {id(tensor): tensor.to(dtype, copy=True).requires_grad_() for tensor in tensors.values()}
    inputs = {name: read[id(tensor)] for name, tensor in tensors.items()}
    output, _, (logits, _) = attention(**inputs, **masks, need_weights=False)
    blank = masks["key_padding_mask"][:, None, None, :] | masks.get("attn_mask", torch.zeros(())).isinf()
    if "query_padding_mask" in masks:
        blank = blank | masks["query_padding_mask"][:, None, :, None]
    wordless = blank.all(-1).any(1).T.unsqueeze(-1)
    output, logits = output.masked_fill(wordless, 0.0), logits.masked_fill(blank, 0.0)
    (output.cos().sum() + logits.cos().sum()).backward()
    leaves = [*read.values(), *attention.parameters()]
    return [x if x is None else x.detach().double() for x in (output, logits, *(leaf.grad for leaf in leaves))]


def assert_attends_as_the_reference(seed, kind, kernel, alpha, sizes, shared=True):
    attention, tensors, masks = draw_attention(seed, kind, kernel, alpha, sizes, shared)
    expected = outputs_and_gradients(attention, tensors, masks, torch.float64)
    found = outputs_and_gradients(attention, tensors, masks, torch.float32)
    for result, right in zip(found, expected, strict=True):
        assert (result is None) == (right is None)
        if right is not None:
            # A unit whose ReLU is at its kink has either gradient: they all together are close.
            assert (result - right).norm() <= 1e-5 * max(right.norm().item(), 1.0)


@given(
    seed=seeds,
    kind=st.sampled_from(list(WINDOWS)),
    kernel=st.sampled_from([None, 1, 3, 5]),
    alpha=st.sampled_from([0.0, 0.4]),
    sizes=st.tuples(
        st.integers(1, 3), st.sampled_from([1, 2, 5, 8]), st.integers(1, 20), st.integers(1, 40), st.integers(1, 20)
    ),
    shared=st.booleans(),
)
@settings(max_examples=40, derandomize=True)
def test_attention(instructions, seed, kind, kernel, alpha, sizes, shared):
    if kernel is None and alpha == 0.0:
        alpha = 0.4
    assert_attends_as_the_reference(seed, kind, kernel, alpha, sizes, shared)


@pytest.mark.parametrize("learned", ["", "head", "input"], ids=["fixed", "by head", "by word"])
@pytest.mark.parametrize("chosen", ["native", "reference"])
@given(seed=seeds, kind=st.sampled_from(list(WINDOWS)), kernel=st.sampled_from([None, 1, 3, 5]))
@settings(max_examples=8, derandomize=True)
def test_attention_away_from_the_kink(chosen, learned, seed, kind, kernel):
    """Where no unit is near ReLU's kink, outputs and gradients are as exact as float32 is."""
    attention, tensors, masks = draw_attention(seed, kind, kernel, 0.4, (3, 4, 17, 23, 10), learned=learned)
    if kernel:
        with torch.no_grad():
            attention.conv.weight /= 5
            attention.conv.bias.copy_(torch.tensor([4.0, -4.0, 4.0, -4.0]))
    expected = outputs_and_gradients(attention, tensors, masks, torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "backend", chosen)
        found = outputs_and_gradients(attention, tensors, masks, torch.float32)
    assert_close(found, expected, 1e-6)


def test_attention_of_several_tiles(instructions):
    assert_attends_as_the_reference(1, "cross", 5, 0.4, (1, 16, 40, 500, 3))


def test_the_native_code_attends(monkeypatch):
    """Otherwise the tests above would compare the reference with itself."""
    attention, tensors, masks = draw_attention(1, "encoder", 3, 0.4, (2, 2, 4, 4, 3))
    calls = []
    monkeypatch.setattr(native_library, "function", lambda name, _: lambda fields: calls.append(name))
    outputs_and_gradients(attention, tensors, masks, torch.float32)
    assert calls == ["attend", "attend_backward"]
    attention.dropout_module.p = 0.5
    outputs_and_gradients(attention, tensors, masks, torch.float32)
    assert calls[2:] == ["evolve", "evolve_backward"]


def test_same_bits_twice_and_with_any_number_of_threads():
    case = draw_case(1, (5, 4, 30, 30))
    words = torch.randn(30, 5, 3 * 32, requires_grad=True)
    weight, bias = (parameter.requires_grad_() for parameter in (case.weight, case.bias))
    threads, runs = torch.get_num_threads(), []
    for number in (1, 2, 2, 3):
        torch.set_num_threads(number)
        masks = case.padded_keys, case.padded_queries, case.future
        arguments = FusedArguments(None, None, weight, bias, case.beta, *masks, 0.5, 2, 1)
        results = torch.ops.ea_fairseq.attend(words, None, 4, *arguments)[:2]
        gradients = torch.autograd.grad(sum(result.cos().sum() for result in results), [words, weight, bias])
        with torch.no_grad():
            runs.append([*results, *gradients, *case.operate(native_evolution)])
    torch.set_num_threads(threads)
    for run in runs[1:]:
        assert all(torch.equal(result, first) for result, first in zip(run, runs[0], strict=True))


def test_of_the_maps_only_logits_are_kept_for_the_gradients():
    attention, tensors, masks = draw_attention(1, "encoder", 3, 0.4, (2, 2, 64, 64, 4))
    kept = {}

    def keep(tensor):
        return kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        inputs = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
        attention(**inputs, **masks, need_weights=False)
    map_bytes = 2 * 2 * 64 * 64 * 4
    maps = [x for x in kept.values() if x.untyped_storage().nbytes() >= map_bytes]
    assert (
        sum(x.untyped_storage().nbytes() for x in maps) == 2 * map_bytes
    )  # this layer's logits and the previous one's


@pytest.mark.parametrize("weight", [True, False], ids=["convolution", "no convolution"])
def test_torch_agrees_with_the_operators(weight):
    """Shapes, fake tensors, autograd and aliasing."""
    torch.manual_seed(1)
    scores, previous = (torch.randn(2, 2, 3, 4, requires_grad=True) for _ in range(2))
    sizes = ((2, 2, 3, 3), (2,), (2,))
    weights = [torch.randn(size, requires_grad=True) if weight else None for size in sizes]
    mix = torch.rand(2, 2, requires_grad=True)
    masks = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]]).bool(), None, None
    arguments = FusedArguments(previous, mix, *weights, *masks, 0.5, 1, 1)
    library.opcheck(torch.ops.ea_fairseq.evolve.default, (scores, *arguments))
    query, memory = (torch.randn(shape, requires_grad=True) for shape in ((3, 2, 6), (4, 2, 12)))
    library.opcheck(torch.ops.ea_fairseq.attend.default, (query, memory, 2, *arguments))
    words, previous = (torch.randn(shape, requires_grad=True) for shape in ((4, 2, 18), (2, 2, 4, 4)))
    arguments = arguments._replace(previous=previous)
    library.opcheck(torch.ops.ea_fairseq.attend.default, (words, None, 2, *arguments))


@pytest.mark.parametrize("change", [{"previous": None}, {"mix": None}])
def test_previous_logits_and_their_weight_go_together(change):
    arguments = FusedArguments(torch.zeros(1, 2, 3, 3), torch.ones(2, 2), *[None] * 6, 0.5, 0, 0)._replace(**change)
    for operator, inputs in (("attend", (torch.zeros(3, 1, 12), None, 2)), ("evolve", (torch.zeros(1, 2, 3, 3),))):
        with pytest.raises(ValueError, match="previous logits and a weight of theirs go together"):
            getattr(torch.ops.ea_fairseq, operator)(*inputs, *arguments)


@pytest.mark.parametrize("weights", MIXES)
def test_attention_of_any_weights(instructions, weights):
    """Own and previous logits are added up by weights that need not add up to 1, in training and in decoding."""
    torch.manual_seed(1)
    own_weight, previous_weight = weights
    fused = FusedLogits(own_weight, previous_weight)
    tensors = torch.randn(7, 2, 12), torch.randn(9, 2, 24), torch.randn(2, 3, 7, 9)
    padded_keys = torch.rand(2, 9) < 0.3

    def split(x):
        return x.unflatten(-1, (3, 4)).permute(1, 2, 0, 3)

    def equations(query, memory, previous):
        q, k, v = map(split, split_qkv(query, memory))
        logits = own_weight * 0.5 * (q @ k.transpose(-1, -2)) + previous_weight * previous
        logits = logits.masked_fill(padded_keys[:, None, None], 0.0)
        probabilities = logits.masked_fill(padded_keys[:, None, None], -torch.inf).softmax(-1)
        return (probabilities @ v).permute(2, 0, 1, 3).flatten(2), logits

    def kernel(query, memory, previous):
        return attend(query, memory, 3, 0.5, fused, previous, AttentionMasks(padded_keys))

    results = []
    for function, dtype in ((kernel, torch.float32), (equations, torch.float64)):
        leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in tensors]
        found = function(*leaves)
        results.append([*found, *torch.autograd.grad(sum(x.cos().sum() for x in found), leaves)])
    assert_close(*results, 1e-6)

    query, memory, previous = tensors
    expected, logits = equations(query[:1], memory, previous[:, :, :1])
    beam = BeamState(torch.arange(2))
    cache = AttentionCache(beam, owns_beam=True, has_source=True)
    cache.take_source(*memory.chunk(2, -1), padded_keys)
    beam.advance()
    found = native_step.step(cache, query[:1], 3, 0.5, fused, previous[:, :, :1], None, False)
    assert_close([found[0], found[2]], [expected, logits], 1e-6)


def test_half_precision_is_evolved_between_products(monkeypatch):
    attention, tensors, masks = draw_attention(1, "decoder", 3, 0.4, (2, 2, 6, 6, 4))
    results = {}
    for chosen in ("native", "reference"):
        monkeypatch.setattr(backend, "backend", chosen)
        results[chosen] = outputs_and_gradients(attention, tensors, masks, torch.bfloat16)
    for found, expected in zip(*results.values(), strict=True):
        assert (found - expected).norm() <= 0.05 * max(expected.norm().item(), 1.0)
