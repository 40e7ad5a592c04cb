"""What stands in for a kernel that fails, in plain PyTorch, equals the equations, whatever is or is not there."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.kernels import reference
from evolution_cases import CONVOLUTIONS, assert_close, draw_case, mixes, sets_of_absent

TOLERANCES = {torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 2e-2}


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 9]), st.integers(1, 6), st.integers(1, 9)),
    convolution=st.sampled_from(CONVOLUTIONS),
    dtype=st.sampled_from(list(TOLERANCES)),
    absent=sets_of_absent,
    weights=mixes,
    precision=st.sampled_from([torch.float32, torch.float64]),
)
def test_it_computes_the_equations(seed, sizes, convolution, dtype, absent, weights, precision):
    case = draw_case(seed, sizes, *convolution, dtype, absent, weights)
    logits, *kept = reference.forward(case.scores, case.arguments, precision)
    gradients = reference.backward(case.d_logits, case.d_probabilities, *kept, *case.read_again, precision)
    found = [tensor if tensor is not None and tensor.numel() else None for tensor in (logits, *kept[:2], *gradients)]
    case.stored = found[2]
    assert_close(found, case.expected(), TOLERANCES[dtype], case)
    assert all(tensor is None or tensor.dtype is dtype for tensor in found[:5])


def test_autocast_does_not_round_what_it_computes():
    case = draw_case(1, (2, 4, 5, 6))
    exact = reference.forward(case.scores, case.arguments)
    with torch.autocast("cpu", torch.bfloat16):
        found = reference.forward(case.scores, case.arguments)
    assert all(map(torch.equal, found, exact))
