"""Convolutions over tokens, parallel to self-attention or in place of it.

Predictive Attention Transformer, submitted to ICLR 2021 ("PA").
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import LayerContext, Mechanism
from ea_fairseq.blocks.branch import Branch
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.options import Options


class TokenConvolution(Branch):
    """A convolution over each token and its two neighbours, with bias, to C' channels (PA, section 4.1.1 and B.1).

    The paper mentions no norm or activation of its own, so it has none: the layer's norm and feed-forward network
    follow, as they do self-attention.

    Args:
        dilation: the distance of the neighbours in tokens.
        later: whether the second neighbour comes after the token; else both come before it.
    """

    KERNEL = 3

    def __init__(self, width: int, reads: int | None = None, dilation: int = 1, later: bool = True):
        super().__init__(width, reads)
        reach = self.KERNEL // 2 * dilation
        self.before = 0 if later else 2 * reach
        self.conv = nn.Conv1d(self.reads, width, self.KERNEL, padding=reach * later, dilation=dilation)

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None = None) -> Tensor:
        """(T, B, C') or (T, B, C) -> (T, B, C'), of whole sentences; the convolution reads zeros at padding."""
        tokens = masks.cleared_tokens(x).permute(1, 2, 0)
        return self.conv(F.pad(tokens, (self.before, 0)) if self.before else tokens).permute(2, 0, 1)


class ConvolvedTokens(Mechanism, TokenConvolution):
    """A convolution over three tokens and a projection, C to C, in place of self-attention (PA's baseline CNN)."""

    title = "convolution"
    adds = "kernels"

    def __init__(self, width: int):
        super().__init__(width)
        self.out_proj = nn.Linear(width, width)

    @classmethod
    def build(
        cls,
        options: Options,
        context: LayerContext,
        embed_dim: int,
        num_heads: int,
        terms: Sequence[nn.Module] = (),
        convolutions: nn.Module | None = None,
        **kwargs: Any,
    ) -> "ConvolvedTokens":
        """Builds the convolution with an attention's arguments.

        Raises:
            UserError: if there are score terms or convolutions of an attention.
        """
        if terms or convolutions is not None:
            raise UserError("--arch cnn_classifier has no attention for the flags of scores and projections to act on")
        return cls(embed_dim)

    def forward(  # type: ignore[override]  # an attention's arguments, not a branch's
        self, query: Tensor, *memory: Tensor, masks: AttentionMasks, **kwargs: Any
    ) -> tuple[Tensor, None, Passed]:
        """(T, B, C) -> (T, B, C); it returns no probabilities and passes nothing on."""
        return self.out_proj(super().forward(query, masks)), None, NOTHING
