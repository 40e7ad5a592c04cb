"""Layer-integrated memory: Gerasimov et al., You Do Not Fully Utilize Transformer's Representation Capacity, 2025
(arXiv 2502.09245, "LIMe", static).

k_{l,h} <- sum_{i <= l} sum_g R^l_{h,(i,g)} k_{i,g}, and values likewise, of one word in self-attentions; k_{i,g} are
not themselves mixed.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.layers_below import LayersBelowAttention
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.errors import UserError
from ea_fairseq.options import Options


@register_mechanism("lime")
class LimeAttention(LayersBelowAttention):
    """Self-attention whose heads read mixtures of all heads of all layers up to this one.

    Parameters are fairseq's plus, from the second layer on, ``layer_mixing`` (K, l, K), R of layer l: at the start, the
    identity for the layer itself and uniform at random for those below.
    """

    title = "LIMe"
    adds = "mixtures of layers"
    fused = Attention.fused

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, **kwargs: Any):
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.layer_mixing = None
        if self.layer > 0:
            bound = math.sqrt(3 / (num_heads * (self.layer + 1)))
            below = torch.empty(num_heads, self.layer, num_heads).uniform_(-bound, bound)
            self.layer_mixing = nn.Parameter(torch.cat([below, torch.eye(num_heads).unsqueeze(1)], dim=1))

    def mix(self, queries: Tensor, layers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys joined with values, mixed over layers and heads, and those of all layers as they were projected.

        Raises:
            UserError: if layers below have been dropped.
        """
        if len(layers) != self.layer + 1:
            raise UserError("LIMe mixes all layers: --encoder-layerdrop and --decoder-layerdrop must be 0")
        if self.layer_mixing is None:
            return layers[-1], layers
        return torch.einsum("hlg,ltbgd->tbhd", self.layer_mixing.type_as(layers), layers), layers

    @torch.no_grad()
    def start_from_plain(self, options: Options) -> str:
        """Initializes mixing as the identity, which changes nothing."""
        if self.layer_mixing is not None:
            self.layer_mixing[:, :-1] = 0.0
        return "as the identity"
