"""Depth-Attention: Zeng et al., 2026 (arXiv 2606.05014).

p_i = softmax_i(q_l . k_i / sqrt(d)) over this layer l and layers i below, and v_l <- sum_i p_i v_i, all of one word and
head, in self-attentions; v_i are themselves mixed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.layers_below import LayersBelowAttention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options, option, whole


@dataclass(frozen=True)
class DepthOptions(Options):
    """The flag of Depth-Attention."""

    depth_every: int = option(1, whole(1), "only one layer in N, from the first on, is read by the layers above it")


@register_mechanism("depth_attention")
class DepthAttention(LayersBelowAttention):
    """Self-attention whose values attend to those of the same word in the layers below; no parameters."""

    options = DepthOptions
    title = "Depth-Attention"
    marker = "depth"
    fused = Attention.fused

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, depth_every: int = 1, **kwargs: Any):
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.is_read = self.layer % depth_every == 0

    @classmethod
    def arguments(cls, options: Any, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "depth_every": options.depth_every}

    def mix(self, queries: Tensor, layers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns this layer's keys joined with sum_i p_i v_i, which are also passed on if layers above read them."""
        keys, values = layers.split([self.key_dim, self.head_dim], dim=-1)
        weights = ((queries * self.scaling * keys).sum(-1, keepdim=True)).softmax(0)
        mixed = torch.cat([keys[-1], (weights * values).sum(0)], dim=-1)
        return mixed, torch.cat([layers[:-1], mixed.unsqueeze(0)]) if self.is_read else layers[:-1]
