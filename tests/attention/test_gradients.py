"""The gradients of evolving attention are right, and none reaches a masked entry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attentions import draw_case, padding
from ea_fairseq.kernels.window import WINDOWS
from tiny import KERNELS


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", WINDOWS)
def test_gradients_equal_finite_differences(kind, kernel):
    case = draw_case(kind, kernel, seed=1)
    variables = [*case.tensors.values(), *case.attention.parameters()]
    assert torch.autograd.gradcheck(lambda *_: case(), variables)  # it changes the variables in place


@given(
    kind=st.sampled_from(list(WINDOWS)),
    kernel=st.sampled_from(KERNELS),
    beta=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50)
def test_gradients_reach_every_word_and_no_masked_entry(kind, kernel, beta, seed):
    case = draw_case(kind, kernel, seed, beta=beta)
    own = keep_own_logits(case.attention)
    results = case()
    cotangents = [torch.randn_like(result) for result in results]
    variables = {**case.tensors, "own": own[0]}
    gradients = torch.autograd.grad(results, list(variables.values()), cotangents)
    reached = {name: gradient.ne(0) for name, gradient in zip(variables, gradients, strict=True)}
    for name in ("own", "previous"):
        assert torch.equal(reached[name], ~case.blank.unsqueeze(1).expand_as(reached[name])), name
    for name in ("query", "key", "value"):
        words = ~padding(len(case.tensors[name])).T
        assert torch.equal(reached[name].any(dim=-1), words), name


def keep_own_logits(attention) -> list[torch.Tensor]:
    """A list to which the attention adds its own logits before they are combined."""
    kept = []
    combine = attention.combine

    def keep_and_combine(own, inputs):
        kept.append(own)
        return combine(own, inputs)

    attention.combine = keep_and_combine
    return kept
