"""``--fast-dropout``: what it leaves out is as much as asked, each element on its own, as the seed says."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from ea_fairseq.kernels.cpu import DTYPES, native_library
from ea_fairseq.kernels.dropout import Dropout, dropout, replace_dropout
from model_checks import native_only

MANY = 200_000


@pytest.fixture
def fast():
    replace_dropout()
    yield
    replace_dropout.cache_clear()  # without a reference to it, torch computes dropout again


def kept(p: float, *shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return Dropout.apply(torch.ones(shape, dtype=dtype), p, seed) != 0


@native_only
@given(p=st.floats(0, 0.999), seed=st.integers(-(2**63), 2**63 - 1))
def test_as_many_are_left_out_as_asked(p, seed):
    deviation = math.sqrt(p * (1 - p) / MANY)
    rare = 24 / MANY  # of Bernstein's inequality at 6 deviations, for probabilities close to 0 and 1
    assert abs((~kept(p, MANY, seed=seed)).double().mean().item() - p) <= 6 * deviation + rare


@native_only
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("distance", [1, 2, 3, 16, 128, 2**16])
def test_neighbours_say_nothing_of_each_other(p, distance):
    drawn = kept(p, MANY).double() - (1 - p)
    products = drawn[distance:] * drawn[:-distance]
    assert abs(products.mean().item()) <= 6 * p * (1 - p) / math.sqrt(MANY - distance)


@native_only
@pytest.mark.parametrize("distance", [1, 2**16, 2**32])
def test_seeds_say_nothing_of_each_other(distance):
    one, other = (kept(0.5, MANY, seed=seed).double() - 0.5 for seed in (7, 7 + distance))
    assert abs((one * other).mean().item()) <= 6 * 0.25 / math.sqrt(MANY)


@native_only
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 7, 2), (2**16 + 3,)], ids=str)
def test_others_are_scaled_whatever_dtype_layout_and_instructions(shape, dtype, monkeypatch):
    x = torch.randn(shape).to(dtype)
    order = tuple(reversed(range(x.dim())))
    expected = torch.where(kept(0.25, *shape), x.float() / 0.75, 0).to(dtype)
    permuted = x.permute(order).contiguous().permute(order)
    for instructions in native_library.INSTRUCTION_SETS[native_library.INSTRUCTION_SETS.index(widest()) :]:
        monkeypatch.setattr(native_library, "instruction_set", lambda instructions=instructions: instructions)
        for values in (x, permuted):
            torch.testing.assert_close(Dropout.apply(values, 0.25, 1), expected, rtol=2**-8, atol=0)


def widest() -> str:
    return native_library.LIBRARY.instruction_set().decode()


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_no_probability_is_refused_as_torch_does(p):
    for function in (F.dropout, dropout):
        with pytest.raises((RuntimeError, ValueError), match="between 0 and 1"):
            function(torch.empty(3), p, True)


@pytest.mark.parametrize("p", [0, 1])
@pytest.mark.usefixtures("fast")
def test_all_or_nothing(p):
    assert F.dropout(torch.ones(20), p).equal(torch.full((20,), 1.0 - p))


def test_dropout_is_replaced_while_it_is_on():
    def dropped() -> torch.Tensor:
        torch.manual_seed(1)
        return F.dropout(torch.ones(1000), 0.3)

    torchs = dropped()
    replace_dropout()
    ours = dropped()
    assert ours.equal(dropped())
    assert F.dropout(torch.ones(1000), 0.3, training=False).equal(torch.ones(1000))
    replace_dropout.cache_clear()
    assert dropped().equal(torchs)
    assert not ours.equal(torchs) or native_library.LIBRARY is None


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.float16], ids=str)
def test_gradients_go_where_values_went(dtype):
    x = torch.full((50, 40), 2.0, dtype=dtype, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert x.grad.equal(y.detach() / 2)
    assert 0 < y.count_nonzero() < y.numel()


@pytest.mark.usefixtures("fast")
def test_attention_of_torch_is_dropped_out_so_too():
    query = torch.randn(2, 3, 50, 8)
    outputs = [F.scaled_dot_product_attention(query, query, torch.ones_like(query), dropout_p=0.5) for _ in range(2)]
    assert not outputs[0].equal(outputs[1])
    assert abs(outputs[0].mean().item() - 1) < 0.2


@pytest.mark.usefixtures("fast")
def test_a_forward_pass_that_is_repeated_leaves_out_the_same():
    x = torch.ones(50, 40, requires_grad=True)
    y = checkpoint(lambda values: F.dropout(values, 0.25).square(), x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.equal(2 * y.detach())
