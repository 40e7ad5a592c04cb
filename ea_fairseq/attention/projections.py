"""Linear projections of the same words, in one product."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def project(words: Tensor, *layers: nn.Module) -> Tensor:
    """The outputs of the layers, side by side.

    Args:
        words: (..., C).
        layers: all with a bias or all without.
    """
    # A trace shows a Function's operations to nobody, and autocast does not reach its backward pass.
    simple = torch.jit.is_tracing() or torch.is_autocast_enabled(words.device.type)
    if simple or not torch.is_grad_enabled() or not all(map(is_plain, layers)):
        return joined(*layers)(words)
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return Projection.apply(words, len(layers), *(layer.weight for layer in layers), *biases)


def joined(*layers: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that gives of words (..., C) what ``project`` does, with the parameters as they are now."""
    if not all(map(is_plain, layers)):
        return lambda words: torch.cat([layer(words) for layer in layers], dim=-1)
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return lambda words: F.linear(words, weight, bias)


def is_plain(layer: nn.Module) -> bool:
    """Whether a call of the layer does no more than multiply and add; fairseq's quantization noise is a hook."""
    return type(layer) is nn.Linear and not any(getattr(layer, hooks) for hooks in HOOKS)


class Projection(torch.autograd.Function):
    """Of words, the number of weights, these and the biases; keeps no copy of the weights for the backward pass."""

    @staticmethod
    def forward(words, count, *parameters):
        weights, biases = parameters[:count], parameters[count:]
        return F.linear(words, torch.cat(weights), torch.cat(biases) if biases else None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        words, count, *parameters = inputs
        ctx.has_bias = len(parameters) > count
        ctx.save_for_backward(words, *parameters[:count])

    @staticmethod
    def backward(ctx, gradient):
        words, *weights = ctx.saved_tensors
        sizes = [len(weight) for weight in weights]
        of_words = gradient @ torch.cat(weights) if ctx.needs_input_grad[0] else None
        rows = gradient.flatten(0, -2)
        of_weights = (rows.T @ words.flatten(0, -2)).split(sizes)
        of_biases = rows.sum(0).split(sizes) if ctx.has_bias else ()
        return of_words, None, *of_weights, *of_biases
