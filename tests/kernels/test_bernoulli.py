"""What dropout leaves out by ``--fast-dropout``: as often as asked, each element on its own, as the seed says."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from ea_fairseq.kernels.cpu.bernoulli import STEPS, bernoulli_, draw_fast

MANY = 200_000
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def fast():
    draw_fast()
    yield
    draw_fast.cache_clear()  # without a reference to it, torch draws again


def draw(p: float, *shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return bernoulli_(torch.empty(shape, dtype=dtype), p, generator=torch.Generator().manual_seed(seed))


@given(p=st.floats(0, 1), seed=st.integers(0, 2**31))
def test_ones_are_as_many_as_asked(p, seed):
    drawn = draw(p, MANY, seed=seed)
    assert set(drawn.unique().tolist()) <= {0.0, 1.0}
    deviation = math.sqrt(p * (1 - p) / MANY)
    assert abs(drawn.double().mean().item() - p) <= 6 * deviation + 1 / STEPS


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("distance", [1, 2, 3, 4, 128])
def test_neighbours_say_nothing_of_each_other(p, distance):
    drawn = draw(p, MANY).double() - p
    products = drawn[distance:] * drawn[:-distance]
    assert abs(products.mean().item()) <= 6 * p * (1 - p) / math.sqrt(MANY)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5,), (3, 7, 2)], ids=str)
def test_numbers_do_not_depend_on_dtype_and_layout(shape, dtype):
    drawn = draw(0.5, *shape, dtype=dtype)
    assert (drawn.shape, drawn.dtype) == (torch.Size(shape), dtype)
    assert drawn.equal(draw(0.5, *shape).to(dtype))
    backwards = torch.empty(shape[::-1], dtype=dtype).permute(tuple(reversed(range(len(shape)))))
    assert drawn.equal(bernoulli_(backwards, 0.5, generator=torch.Generator().manual_seed(1)))


def test_another_seed_draws_others():
    assert draw(0.5, 100).equal(draw(0.5, 100))
    assert not draw(0.5, 100).equal(draw(0.5, 100, seed=2))


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_no_probability_is_refused_as_torch_does(p):
    with pytest.raises(RuntimeError, match=r"to be in \[0, 1\]"):
        torch.empty(3).bernoulli_(p)
    with pytest.raises(RuntimeError, match=r"to be in \[0, 1\]"):
        bernoulli_(torch.empty(3), p)


def test_dropout_draws_so_while_it_is_on():
    def dropped() -> torch.Tensor:
        torch.manual_seed(1)
        return F.dropout(torch.ones(1000), 0.3)

    torchs = dropped()
    draw_fast()
    ours = dropped()
    torch.manual_seed(1)
    assert ours.equal(bernoulli_(torch.empty(1000), 0.7) / 0.7)
    draw_fast.cache_clear()
    assert dropped().equal(torchs)
    assert not ours.equal(torchs)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_go_where_values_went(dtype):
    x = torch.full((50, 40), 2.0, dtype=dtype, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert x.grad.equal(y.detach() / 2)
    assert 0 < y.count_nonzero() < y.numel()


@pytest.mark.usefixtures("fast")
def test_a_forward_pass_that_is_repeated_leaves_out_the_same():
    x = torch.ones(50, 40, requires_grad=True)
    y = checkpoint(lambda values: F.dropout(values, 0.25).square(), x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.equal(2 * y.detach())
