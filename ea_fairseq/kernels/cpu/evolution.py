"""Scores to logits and probabilities by the native code for CPUs; see ``kernels/evolve.py`` for what it computes."""

import torch
from torch import Tensor

from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.dispatch import FusedArguments, new_relu_mask


def forward(scores: Tensor, arguments: FusedArguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of checked tensors.

    Returns:
        Logits, probabilities and the convolution's input, (B, K, T, S), and in bits where its ReLU passes its output
        on; the last two empty without a convolution.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    logits, probabilities = torch.empty_like(scores), torch.empty_like(scores)
    conv_input = scores.new_empty(0) if arguments.weight is None else torch.empty_like(scores)
    relu_mask = new_relu_mask(scores, arguments.weight)
    dispatch.call(
        "evolve",
        scores.shape,
        arguments,
        bf16=scores.dtype == torch.bfloat16,
        scores=scores,
        logits=logits,
        probabilities=probabilities,
        conv_input=conv_input,
        relu_mask=relu_mask,
    )
    return logits, probabilities, conv_input, relu_mask


def backward(
    d_logits: Tensor | None,
    d_probabilities: Tensor,
    probabilities: Tensor,
    conv_input: Tensor,
    relu_mask: Tensor,
    arguments: FusedArguments,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of scores, previous logits, weight and bias, None where there is none; the logits are not read again.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    d_scores = torch.empty_like(probabilities)
    d_previous = torch.empty_like(probabilities) if arguments.previous_weight else None
    d_weight, d_bias = (None if x is None else torch.empty_like(x) for x in (arguments.weight, arguments.bias))
    dispatch.call(
        "evolve_backward",
        probabilities.shape,
        arguments,
        bf16=probabilities.dtype == torch.bfloat16,
        probabilities=probabilities,
        conv_input=conv_input,
        relu_mask=relu_mask,
        d_logits=d_logits,
        d_probabilities=d_probabilities,
        d_scores=d_scores,
        d_previous=d_previous,
        d_weight=d_weight,
        d_bias=d_bias,
    )
    return d_scores, d_previous, d_weight, d_bias
