"""Scores to logits and probabilities in plain PyTorch: kernels in Triton are compared with it, and replaced by it.

It has the functions of ``kernels/triton/evolution.py`` and saves the same tensors for the backward pass, so that either
module can compute either pass.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments

LERP_ROUNDING = 1.2e-7  # weights that are so near 1 together were rounded to float32


def without_autocast(function: Callable) -> Callable:
    """The function without autocast, because it chooses the types of its products itself."""

    @wraps(function)
    def run(maps: Tensor | None, *args: Any, **options: Any) -> tuple[Tensor | None, ...]:
        device = next(tensor.device.type for tensor in (maps, *args) if isinstance(tensor, Tensor))
        with torch.autocast(device, enabled=False):
            return function(maps, *args, **options)

    return run


@without_autocast
def forward(
    scores: Tensor, arguments: FusedArguments, precision: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mixes, convolves and normalizes.

    Args:
        scores: (B, K, T, S).
        precision: the type that sums and products are computed in.

    Returns:
        Logits, probabilities and the convolution's input, like scores, and an empty tensor. Without a convolution its
        input is empty, too.
    """
    visible, unmasked = visible_entries(scores, arguments)
    # EA eq. 4, the skip connection: scaled scores and the logits of the layer below; zero where masked.
    mixed = arguments.scale * scores.to(precision)
    if arguments.previous is not None:
        previous, (own_weight, previous_weight) = arguments.previous.to(precision), mix_weights(arguments, precision)
        weighted = own_weight * mixed + previous_weight * previous
        is_lerp = (own_weight + previous_weight - 1).abs() < LERP_ROUNDING
        mixed = torch.lerp(mixed, previous, previous_weight).where(is_lerp, weighted)
    logits = mixed.where(unmasked, 0.0).to(scores.dtype)
    # EA eq. 4, the residual convolution.
    conv_input = scores.new_empty(0)
    if arguments.weight is not None:
        conv_input, read = logits, logits.to(precision)
        evolved = torch.lerp(read, F.relu(convolve(padded(read, arguments), arguments)), beta_of(arguments, precision))
        logits = evolved.where(unmasked, 0.0).to(scores.dtype)
    # EA eq. 5, the softmax over visible keys; over all keys alike for a query that sees none.
    seen = logits.to(precision).where(visible, -torch.inf).where(visible.any(-1, keepdim=True), 0.0)
    return logits, seen.softmax(-1).to(scores.dtype), conv_input, scores.new_empty(0, dtype=torch.uint8)


@without_autocast
def backward(
    d_logits: Tensor | None,
    d_probabilities: Tensor,
    probabilities: Tensor,
    conv_input: Tensor,
    relu_mask: Tensor,
    scores: Tensor | None,
    arguments: FusedArguments,
    precision: torch.dtype = torch.float32,
) -> tuple[Tensor | None, ...]:
    """Gradients of what :func:`forward` has read, from those of the logits and probabilities that it has returned.

    Args:
        scores: what ``forward`` has read, and previous logits with them, if the weights of heads have gradients.

    Returns:
        Those of scores and previous logits, like ``probabilities``, and of mix, weight, bias and beta, in float32; None
        where there is none.
    """
    visible, unmasked = visible_entries(probabilities, arguments)
    # Softmax: P * (dP - sum(P * dP)).
    p, d_p = (tensor.to(precision).where(visible, 0.0) for tensor in (probabilities, d_probabilities))
    gradient = p * (d_p - (p * d_p).sum(-1, keepdim=True))
    if d_logits is not None:
        gradient = gradient + d_logits.to(precision)
    gradient = gradient.where(unmasked, 0.0)
    # Convolution: the ReLU passes a gradient on unless its input was 0 or less.
    d_previous = d_mix = d_weight = d_bias = d_beta = None
    if arguments.weight is not None:
        beta = beta_of(arguments, precision)
        read, weight = padded(conv_input.to(precision), arguments), arguments.weight.to(precision)
        convolved = convolve(read, arguments)
        d_convolved = (beta * gradient).masked_fill(convolved <= 0, 0.0)
        if scores is not None:
            d_beta = (gradient * (F.relu(convolved) - conv_input.to(precision))).sum((0, 2, 3)).float()
        d_read, d_weight, d_bias = torch.ops.aten.convolution_backward(
            d_convolved, read, weight, [len(weight)], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
        )
        d_weight, d_bias = d_weight.float(), d_bias.float()
        gradient = ((1 - beta) * gradient + cropped(d_read, arguments)).where(unmasked, 0.0)
    # Skip connection and scale.
    d_scores = arguments.scale * gradient
    if arguments.mix is not None:
        own_weight, previous_weight = mix_weights(arguments, precision)
        d_scores, d_previous = own_weight * d_scores, (previous_weight * gradient).to(probabilities.dtype)
        if scores is not None:
            assert arguments.previous is not None
            mixed = arguments.scale * scores.to(precision), arguments.previous.to(precision)
            d_mix = torch.stack([(gradient * maps.where(unmasked, 0.0)).sum((0, 2, 3)) for maps in mixed]).float()
    return d_scores.to(probabilities.dtype), d_previous, d_mix, d_weight, d_bias, d_beta


def mix_weights(arguments: FusedArguments, precision: torch.dtype) -> Tensor:
    """Weights of scores and of previous logits, (2, K, 1, 1)."""
    assert arguments.mix is not None
    return arguments.mix.to(precision)[..., None, None]


def beta_of(arguments: FusedArguments, precision: torch.dtype) -> Tensor:
    """Weights of the convolution's output, (K, 1, 1)."""
    assert arguments.beta is not None
    return arguments.beta.to(precision)[:, None, None]


def visible_entries(maps: Tensor, arguments: FusedArguments) -> tuple[Tensor, Tensor]:
    """(B, 1, T, S), true where a query may see a key; and the same without the rows of padded queries."""
    sentences, _, queries, keys = maps.shape
    visible = maps.new_ones(sentences, 1, queries, keys, dtype=torch.bool)
    if arguments.padded_keys is not None:
        visible = visible & ~arguments.padded_keys[:, None, None, :]
    if arguments.future is not None:
        visible = visible & ~arguments.future
    if arguments.padded_queries is None:
        return visible, visible
    return visible, visible & ~arguments.padded_queries[:, None, :, None]


def convolve(maps: Tensor, arguments: FusedArguments) -> Tensor:
    """The convolution of padded maps, in their type, (B, K, T, S)."""
    assert arguments.weight is not None and arguments.bias is not None
    return F.conv2d(maps, arguments.weight.to(maps.dtype), arguments.bias.to(maps.dtype))


def padding(arguments: FusedArguments) -> tuple[int, int, int, int]:
    """Columns to the left and right, and rows above and below, that the kernel reads beyond an entry."""
    beyond = arguments.kernel - 1
    return arguments.left, beyond - arguments.left, arguments.above, beyond - arguments.above


def padded(maps: Tensor, arguments: FusedArguments) -> Tensor:
    """Maps padded with the zeros that the convolution reads around them."""
    return F.pad(maps, padding(arguments))


def cropped(maps: Tensor, arguments: FusedArguments) -> Tensor:
    """Maps without the padding that :func:`padded` adds."""
    return F.pad(maps, [-width for width in padding(arguments)])
