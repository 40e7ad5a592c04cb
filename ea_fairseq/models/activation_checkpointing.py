"""fairseq's activation checkpointing and sharding of layers, under the same autocast in both passes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn


def wrap_layer(layer: nn.Module, cfg: Any) -> nn.Module:
    """Applies activation checkpointing and sharding to a layer if the options ask for them, as fairseq does."""
    if cfg.checkpoint_activations:
        return fsdp_wrap(checkpoint_layer(layer, cfg.offload_activations), min_num_params=0)
    return fsdp_wrap(layer, min_num_params=cfg.min_params_to_wrap)


class Autocast(NamedTuple):
    """Arguments of ``torch.autocast``."""

    device_type: str
    dtype: torch.dtype
    enabled: bool

    @classmethod
    def current(cls, device_type: str) -> "Autocast":
        """Returns the current autocast state."""
        return cls(device_type, torch.get_autocast_dtype(device_type), torch.is_autocast_enabled(device_type))


def checkpoint_layer(layer: nn.Module, offload: bool) -> nn.Module:
    """Applies fairseq's activation checkpointing to a layer, under the same autocast in both passes.

    fairseq recomputes activations outside of the autocast of the forward pass. Attentions would then compute logits in
    another dtype than those that the layer below passes on.

    Args:
        offload: whether the layer's input is stored in CPU memory.
    """
    plain = layer.forward
    layer.forward = partial(forward_under_autocast, plain)
    layer = checkpoint_wrapper(layer, offload_to_cpu=offload)
    layer.forward = partial(
        checkpointed_in_training, layer, plain, partial(forward_with_current_autocast, layer.forward)
    )
    return layer


def checkpointed_in_training(
    layer: nn.Module, plain: Callable, checkpointed: Callable, *args: Any, **kwargs: Any
) -> Any:
    """Runs the checkpointed forward in training, and the plain one otherwise: no exporter supports checkpointing."""
    return (checkpointed if layer.training else plain)(*args, **kwargs)


def forward_under_autocast(forward: Callable, *args: Any, autocast: Autocast | None = None, **kwargs: Any) -> Any:
    """Runs a forward under a given autocast, or under the current one if None is given."""
    if autocast is None:
        return forward(*args, **kwargs)
    with torch.autocast(*autocast):
        return forward(*args, **kwargs)


def forward_with_current_autocast(forward: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Passes the current autocast to a forward, for when its activations are recomputed."""
    return forward(x, *args, autocast=Autocast.current(x.device.type), **kwargs)
