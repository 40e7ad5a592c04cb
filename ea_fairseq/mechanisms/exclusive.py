"""Exclusive self-attention: Zhai, 2026 (arXiv 2603.09078, "XSA").

z_t = y_t - (y_t . v_t) v_t / |v_t|^2 for each head: its output y_t without the direction of the word's own value v_t.
"""

from typing import ClassVar

import torch
from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.registry import register_mechanism


@register_mechanism("exclusive_attention")
class ExclusiveAttention(Attention):
    """Self-attention whose outputs have no component along the word's own value; no parameters."""

    title = "exclusive attention"
    marker = "exclusive"
    fused = Attention.fused
    can_fuse_values = False
    of_source: ClassVar[type[Attention] | None] = Attention  # whose queries are words without values
    SMALLEST = 1e-8  # |v_t|^2 to divide by

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """z_t, (B, K, T, d)."""
        output = super().values(weights, inputs)
        # Queries are the last words, or in a decoding step the new one; squares in half precision may be 0 or infinite.
        exact = torch.promote_types(output.dtype, torch.float32)
        own = inputs.v[:, :, -output.size(2) :].to(exact)
        along = (output * own).sum(-1, keepdim=True) / own.square().sum(-1, keepdim=True).clamp(min=self.SMALLEST)
        return (output - along * own).type_as(output)
