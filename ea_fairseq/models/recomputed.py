"""Layers whose activations are computed again in the backward pass."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn


class Autocast(NamedTuple):
    """The arguments of ``torch.autocast``."""

    device_type: str
    dtype: torch.dtype
    enabled: bool

    @classmethod
    def current(cls, device_type: str) -> "Autocast":
        """What is on."""
        return cls(device_type, torch.get_autocast_dtype(device_type), torch.is_autocast_enabled(device_type))


def recomputed(layer: nn.Module, offload: bool) -> nn.Module:
    """The layer, in fairseq's activation checkpointing.

    fairseq computes the activations again outside of the autocast of the forward pass, where attentions would have
    logits in another type than what the layer below has handed on.

    Args:
        offload: whether the layer's input is kept in the memory of the CPU.
    """
    plain = layer.forward
    layer.forward = partial(under_autocast, plain)
    layer = checkpoint_wrapper(layer, offload_to_cpu=offload)
    layer.forward = partial(in_training, layer, plain, partial(with_autocast, layer.forward))
    return layer


def in_training(layer: nn.Module, plain: Callable, checkpointed: Callable, *args: Any, **kwargs: Any) -> Any:
    """A forward pass whose activations are computed again in training alone: no exporter knows how."""
    return (checkpointed if layer.training else plain)(*args, **kwargs)


def under_autocast(forward: Callable, *args: Any, autocast: Autocast | None = None, **kwargs: Any) -> Any:
    """A forward pass under an autocast, or as it is."""
    if autocast is None:
        return forward(*args, **kwargs)
    with torch.autocast(*autocast):
        return forward(*args, **kwargs)


def with_autocast(forward: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A forward pass that is told the autocast of now."""
    return forward(x, *args, autocast=Autocast.current(x.device.type), **kwargs)
