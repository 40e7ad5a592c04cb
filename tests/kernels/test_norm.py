"""Norms and rotations in native code are those of PyTorch, with their gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.attention.query_key import rotate, rotations
from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.kernels.norm import norm
from model_checks import native_only

pytestmark = native_only


def in_pytorch(x, weight, table, vectors, width, eps):
    """The same, of x (T, B, C), in float64."""
    changed = x[..., : vectors * width].unflatten(-1, (vectors, width))
    if weight is not None:
        normalized = changed * (changed.square().mean(-1, keepdim=True) + eps).rsqrt()
        changed = normalized * weight.repeat_interleave(vectors // len(weight), 0)
    if table is not None:
        changed = rotate(changed, table)
    return torch.cat([changed.flatten(-2), x[..., vectors * width :]], dim=-1)


@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    heads=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20)),
    others=st.integers(0, 20),
    does=st.sampled_from(["normalizes", "rotates", "both"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
def test_outputs_and_gradients_are_those_of_pytorch(size, heads, others, does, seed):
    torch.manual_seed(seed)
    (groups, of_group, half), eps = heads, 1e-6
    vectors, width = groups * of_group, 2 * half
    x = torch.randn(*size, vectors * width + others, dtype=torch.float64, requires_grad=True)
    weight = None if does == "rotates" else torch.randn(groups, width, dtype=torch.float64, requires_grad=True)
    table = None if does == "normalizes" else rotations(torch.arange(3, 3 + size[0]), width)
    found = norm(x.float(), *(None if each is None else each.float() for each in (weight, table)), vectors, width, eps)
    expected = in_pytorch(x, weight, table, vectors, width, eps)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)
    inputs = [each for each in (x, weight) if each is not None]
    direction = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, direction.float()),
        torch.autograd.grad(expected, inputs, direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_bfloat16_is_read_and_rounded_once(given, wanted):
    """Outputs and gradients are those of float32, rounded; the gradient of the weight is not."""
    x, weight, table = torch.randn(5, 3, 21).to(given), torch.randn(2, 6), rotations(torch.arange(5), 6).float()
    direction, found = torch.randn(5, 3, 21).to(wanted), []
    for numbers, dtype in ((x, wanted), (x.float(), None)):
        inputs = numbers.detach().requires_grad_(), weight.clone().requires_grad_()
        output = norm(*inputs, table, 2, 6, 1e-6, dtype)
        found.append([output, *torch.autograd.grad(output, inputs, direction.to(output.dtype))])
    for ours, exact, dtype in zip(*found, (wanted, given, torch.float32), strict=True):
        assert ours.dtype is dtype
        torch.testing.assert_close(ours, exact.to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("size", [(0, 3, 8), (3, 0, 8), (7, 8), (8,)])
def test_a_norm_takes_tensors_of_any_dimension(size):
    x, module = torch.randn(size), RMSNorm(8)
    torch.testing.assert_close(module(x), torch.nn.functional.rms_norm(x, (8,), module.weight, 1e-6))


@pytest.mark.parametrize(
    ("autocast", "expected"), [(torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32), (None, torch.float32)]
)
def test_a_norm_under_autocast_has_the_type_of_products_if_native_code_writes_it(autocast, expected):
    with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
        assert RMSNorm(8)(torch.randn(3, 8)).dtype is expected


def test_a_transposed_tensor_is_read_in_its_order():
    x, module = torch.randn(3, 8, 5).transpose(1, 2), RMSNorm(8)
    torch.testing.assert_close(module(x), module(x.contiguous()))


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"x": torch.zeros(2, 1, 8, dtype=torch.float64)}, TypeError, "must be of float32 or bfloat16"),
        ({"dtype": torch.float16}, TypeError, "must be of float32 or bfloat16"),
        ({"x": torch.zeros(1, 1 << 17), "width": 1 << 17, "vectors": 1, "weight": None}, ValueError, "at most 65536"),
        ({"weight": torch.ones(2, 3)}, ValueError, "weight must have the size"),
        ({"weight": torch.ones(3, 4)}, ValueError, "does not have 2 vectors"),
        ({"rotations": torch.ones(3, 4)}, ValueError, "rotations must have the size"),
        ({"vectors": 3}, ValueError, "does not have 3 vectors of 4"),
        ({"vectors": -2, "width": -4, "weight": None, "rotations": None}, ValueError, "not have -2 vectors of -4"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, sentence):
    given = {"x": torch.zeros(2, 1, 8), "weight": torch.ones(2, 4), "rotations": torch.ones(2, 4), "vectors": 2}
    with pytest.raises(error, match=sentence):
        norm(**{"width": 4, "eps": 1e-6, **given, **changes})


def test_there_are_no_second_derivatives():
    x = torch.randn(2, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(RMSNorm(8)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        gradient.sum().backward()
