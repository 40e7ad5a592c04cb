"""Scores to logits and probabilities by the native code for CPUs; see ``kernels/evolve.py`` for what it computes."""

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import DIFFERENTIATED, FusedArguments, new_gradients
from ea_fairseq.kernels.cpu.call import call, new_relu_mask


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
    call(
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
    scores: Tensor | None,
    arguments: FusedArguments,
) -> tuple[Tensor | None, ...]:
    """Gradients of scores and of the arguments that may have some, None where there is none.

    Scores and previous logits are read again only for the gradients of the weights of heads.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    d_scores = torch.empty_like(probabilities)
    gradients = new_gradients(arguments, scores is not None, probabilities)
    call(
        "evolve_backward",
        probabilities.shape,
        arguments,
        bf16=probabilities.dtype == torch.bfloat16,
        scores=scores,
        probabilities=probabilities,
        conv_input=conv_input,
        relu_mask=relu_mask,
        d_logits=d_logits,
        d_probabilities=d_probabilities,
        d_scores=d_scores,
        **dict(zip((f"d_{name}" for name in DIFFERENTIATED), gradients, strict=True)),
    )
    return d_scores, *gradients
