"""The evolution of logits by the native code for CPUs; see evolution_operator.py for what it computes."""

import torch
from torch import Tensor

from ea_fairseq.kernels.cpu.library import call

DTYPES = (torch.float32, torch.bfloat16)


def forward(scores, previous, weight, bias, padded_keys, padded_queries, later, scale, alpha, beta, above, left):
    """Of tensors that ``kernel_tensors`` has checked. Returns logits, probabilities, the convolution's input and where
    the ReLU lets its output through, in bits; empty tensors for the last two without a convolution."""
    logits, probabilities = torch.empty_like(scores), torch.empty_like(scores)
    mixed = scores.new_empty(0) if weight is None else torch.empty_like(scores)
    active = no_bits(scores, weight)
    call(
        "evolve",
        **sizes(scores.shape, weight, scale, 0.0 if previous is None else alpha, beta, above, left),
        padded_keys=padded_keys,
        padded_queries=padded_queries,
        later=later,
        bf16=scores.dtype == torch.bfloat16,
        scores=scores,
        previous=previous,
        weight=weight,
        bias=bias,
        logits=logits,
        probabilities=probabilities,
        mixed=mixed,
        active=active,
    )
    return logits, probabilities, mixed, active


def backward(
    d_logits, d_probabilities, probabilities, mixed, active, weight, bias, padded_keys, padded_queries, later, *scalars
):
    """Returns the gradients of scores, previous, weight and bias, None where there is none."""
    scale, alpha, beta, above, left, has_previous = scalars
    d_scores = torch.empty_like(probabilities)
    d_previous = torch.empty_like(probabilities) if has_previous else None
    d_weight = None if weight is None else torch.empty_like(weight)
    d_bias = None if weight is None else torch.empty_like(bias)
    call(
        "evolve_backward",
        **sizes(probabilities.shape, weight, scale, alpha if has_previous else 0.0, beta, above, left),
        padded_keys=padded_keys,
        padded_queries=padded_queries,
        later=later,
        bf16=probabilities.dtype == torch.bfloat16,
        weight=weight,
        probabilities=probabilities,
        mixed=mixed,
        active=active,
        d_logits=d_logits,
        d_probabilities=d_probabilities,
        d_scores=d_scores,
        d_previous=d_previous,
        d_weight=d_weight,
        d_bias=d_bias,
    )
    return d_scores, d_previous, d_weight, d_bias


def no_bits(maps: Tensor, weight: Tensor | None) -> Tensor:
    """For a bit of each entry of maps (B, K, T, S), or of none without a convolution; all zero."""
    return maps.new_zeros((0,) if weight is None else active_size(maps.shape), dtype=torch.uint8)


def active_size(size: tuple[int, ...]) -> tuple[int, ...]:
    """Of the bits, one for each entry of maps (B, K, T, S), rows rounded up to 16."""
    *rows, keys = size
    return *rows, 2 * ((keys + 15) // 16)


def sizes(shape: tuple[int, ...], weight: Tensor | None, scale, alpha, beta, above, left) -> dict:
    """Fields of a call on maps of a shape (B, K, T, S)."""
    sentences, heads, queries, keys = shape
    return {
        "sentences": sentences,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "kernel": 1 if weight is None else weight.size(-1),
        "above": 0 if weight is None else above,
        "left": 0 if weight is None else left,
        "scale": scale,
        "alpha": alpha,
        "beta": beta,
    }
