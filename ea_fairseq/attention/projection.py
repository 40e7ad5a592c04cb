"""Projections to queries, keys and values, side by side, in one product."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def project(x: Tensor, *layers: nn.Module) -> Tensor:
    """Computes the outputs of linear layers, side by side, in one product.

    Args:
        x: (..., C).
        layers: n layers with C' outputs each, all with a bias or all without.

    Returns:
        (..., n C').
    """
    # torch.jit.trace does not trace an autograd.Function, and autocast does not act on its backward pass.
    simple = torch.jit.is_tracing() or torch.is_autocast_enabled(x.device.type)
    if simple or not torch.is_grad_enabled() or not all(map(is_exactly, layers)):
        return joined(*layers)(x.contiguous())  # by frozen weights, PyTorch multiplies strided tokens one by one
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return Projection.apply(x, len(layers), *(layer.weight for layer in layers), *biases)


def joined(*layers: nn.Module) -> Callable[[Tensor], Tensor]:
    """Returns a function of x (..., C) that computes what :func:`project` does, with the current parameters."""
    if not all(map(is_exactly, layers)):
        return lambda x: torch.cat([layer(x) for layer in layers], dim=-1)
    linears: Any = layers
    weight = torch.cat([layer.weight for layer in linears])
    bias = None if linears[0].bias is None else torch.cat([layer.bias for layer in linears])
    return partial(F.linear, weight=weight, bias=bias)


def is_exactly(layer: nn.Module, kind: type[nn.Module] = nn.Linear) -> bool:
    """Whether the layer is of this class, not a subclass, and has no hooks, such as fairseq's quantization noise."""
    return type(layer) is kind and not any(getattr(layer, hooks) for hooks in HOOKS)


class Projection(torch.autograd.Function):
    """:func:`project`, but saves the layers' weights for the backward pass instead of a concatenated copy of them.

    Its arguments are x (..., C), the number n of layers, their weights (C', C) and, if there are any, biases (C').
    """

    @staticmethod
    def forward(x: Tensor, layers: int, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[:layers], parameters[layers:]
        return F.linear(x, torch.cat(weights), torch.cat(biases) if biases else None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x, layers, *parameters = inputs
        ctx.has_bias = len(parameters) > layers
        ctx.save_for_backward(x, *parameters[:layers])

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        sizes = [len(weight) for weight in weights]
        d_x = d_output @ torch.cat(weights) if ctx.needs_input_grad[0] else None
        rows = d_output.flatten(0, -2)
        d_weights = (rows.T @ x.flatten(0, -2)).split(sizes)
        d_biases = rows.sum(0).split(sizes) if ctx.has_bias else ()
        return d_x, None, *d_weights, *d_biases
