"""The step from scores to logits and probabilities in native code for CPUs; ``kernels/evolve.py`` has the equations."""

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import DIFFERENTIATED, FusedArguments, new_gradients
from ea_fairseq.kernels.cpu.call import call, new_relu_mask


def forward(scores: Tensor, arguments: FusedArguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The forward pass; the tensors have been checked.

    Returns:
        Logits, probabilities and the convolution's input, (B, K, T, S), and the bits of its ReLU, 1 if active; the last
        two are empty without a convolution.

    Raises:
        MemoryError: if the rows of a map do not fit into memory.
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
    """The backward pass: gradients of scores and of the arguments that are differentiated, None for those without.

    Scores and previous logits are read only for the gradients of the weights of heads.

    Raises:
        MemoryError: if the rows of a map do not fit into memory.
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
