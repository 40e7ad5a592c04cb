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
    return joined(*layers)(words)


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
