"""What the equations promise of logits."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attentions import draw_case, evolved
from ea_fairseq.kernels.window import WINDOWS
from tiny import KERNELS

drawn = given(kind=st.sampled_from(list(WINDOWS)), kernel=st.sampled_from(KERNELS), seed=st.integers(0, 2**32 - 1))
often = settings(max_examples=25)


def assert_same(results, expected):
    for result, other in zip(results, expected, strict=True):
        torch.testing.assert_close(result, other, atol=1e-12, rtol=0)


@drawn
@often
@torch.no_grad()
def test_without_a_convolution_shifting_a_row_shifts_logits_and_no_probability(kind, kernel, seed):
    case = draw_case(kind, kernel, seed, alpha=0.4, beta=0.0)
    output, logits = case()
    shift = torch.randn_like(logits[..., :1])
    case.tensors["previous"].add_(shift)
    assert_same(case(), (output, (logits + 0.4 * shift).masked_fill(case.blank.unsqueeze(1), 0.0)))


@drawn
@often
@torch.no_grad()
def test_without_a_bias_the_logits_scale_as_what_they_evolve_from(kind, kernel, seed):
    case = draw_case(kind, kernel, seed)
    case.attention.conv.bias.zero_()
    previous, blank = case.tensors["previous"], case.blank.unsqueeze(1)
    own = torch.randn_like(previous)
    logits = evolved(case.attention, own, previous, blank)
    assert_same([evolved(case.attention, 3 * own, 3 * previous, blank)], [3 * logits])


@drawn
@often
@torch.no_grad()
def test_with_alpha_one_only_the_first_layers_queries_and_keys_matter(kind, kernel, seed):
    later = draw_case(kind, kernel, seed, alpha=1.0)
    first = dataclasses.replace(later, tensors={**later.tensors, "previous": None})
    of_later, of_first = later(), first()
    for projection in (later.attention.q_proj, later.attention.k_proj):
        projection.weight.normal_()
    assert_same(later(), of_later)
    assert (first()[0] - of_first[0]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", WINDOWS)
@torch.no_grad()
def test_a_convolution_is_what_makes_a_shift_of_a_row_matter(kind):
    """Otherwise the first law above would say nothing of the convolution."""
    case = draw_case(kind, kernel=3, seed=1)
    output, _ = case()
    case.tensors["previous"].add_(1.0)
    assert (case()[0] - output).abs().max() > 1e-6
