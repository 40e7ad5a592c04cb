"""Exclusive self-attention: Zhai, 2026 (arXiv 2603.09078, "XSA").

z_t = y_t - (y_t . v_t) v_t / |v_t|^2 for each head: what a word attends to, without the direction of its own value.
"""

from typing import Any

from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options


@register_mechanism("exclusive_attention")
class ExclusiveAttention(Attention):
    """Self-attention whose heads have no part in the direction of the word's own value; no parameters."""

    title = "exclusive attention"
    marker = "exclusive"
    fused = Attention.fused
    can_fuse_values = False
    SMALLEST = 1e-8  # |v_t|^2 that is divided by

    @classmethod
    def build(cls, options: Options, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any) -> Attention:
        """Exclusive self-attention; attention to the source, whose words have other values, is plain."""
        if context.kind == "cross":
            return Attention(embed_dim, num_heads, **kwargs)
        return super().build(options, context, embed_dim, num_heads, **kwargs)

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """z_t, (B, K, T, d)."""
        output = super().values(weights, inputs)
        # Queries are the last words, in a decoding step the one that is new.
        own = inputs.v[:, :, -output.size(2) :]
        along = (output * own).sum(-1, keepdim=True) / own.square().sum(-1, keepdim=True).clamp(min=self.SMALLEST)
        return output - along * own
