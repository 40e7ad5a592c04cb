"""Self-attention that reads keys and values of the same words in the layers below."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError


class LayersBelowAttention(Attention):
    """Self-attention whose keys and values are mixed with those of the layers below, before kernels read them.

    Layers pass on keys and values by head, (n, T, B, K, d_k + d_v) of n layers. In a decoding step these are only the
    current word's, because the cache holds mixed ones.

    Raises:
        UserError: if no term reads queries, or none reads keys.
    """

    passes_values = True
    of_source: ClassVar[type[Attention] | None] = Attention  # encoder-decoder attention, whose queries are other words

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, layer: int, **kwargs: Any):
        """Args: layer: its number in the stack, from 0."""
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.layer = layer
        if self.projected != "qkv":
            raise UserError(f"{self.title} needs queries and keys, and these attentions do not have both")

    @classmethod
    def arguments(cls, options: Any, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "layer": context.layer}

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether layers keep all layers below them."""
        return kind == "cross" or layers == [*range(len(layers))]

    def project(self, x: Tensor | tuple[Tensor, ...], parts: str, inputs: Inputs) -> Tensor | None:
        """Projects as in plain attention, and mixes keys and values.

        Raises:
            ValueError: if queries, keys and values are not of the same words.
        """
        projected = super().project(x, parts, inputs)
        if parts != "qkv" or projected is None:
            raise ValueError(f"{self.title} takes the same tensor of words as queries, keys and values")
        # By head, (T, B, K, d); keys are joined with values and appended to those that the layers below passed on.
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)) for part in projected.split([*map(self.width, "qkv")], dim=-1)
        )
        layers = torch.cat([k, v], dim=-1).unsqueeze(0)
        if inputs.first_values is not None:
            layers = torch.cat([inputs.first_values, layers])
        mixed, inputs.first_values = self.mix(q, layers)
        found = (q, *mixed.split([self.key_dim, self.head_dim], dim=-1))
        return torch.cat([part.flatten(-2) for part in found], dim=-1)

    def mix(self, queries: Tensor, layers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys joined with values to attend to, (T, B, K, d_k + d_v), and what is passed on.

        Args:
            queries: (T, B, K, d_k); layers: keys joined with values, this layer's last.
        """
        raise NotImplementedError
