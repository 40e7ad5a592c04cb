"""A convolution over words beside self-attention: Predictive Attention Transformer, submitted to ICLR 2021 ("PA")."""

import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.blocks.branch import Branch
from ea_fairseq.kernels.masks import AttentionMasks


class TokenConvolution(Branch):
    """A convolution over each word and its two neighbours, with bias, to C' channels (PA, section 4.1.1 and B.1).

    What stands around it the paper does not say: here nothing does, no norm and no ReLU, as nothing stands around
    self-attention; the layer's own norm and feed-forward come after both.

    Args:
        dilation: how many words away the neighbours are.
        later: whether the second neighbour comes after the word; else both come before it.
    """

    KERNEL = 3

    def __init__(self, width: int, reads: int | None = None, dilation: int = 1, later: bool = True):
        super().__init__(width, reads)
        reach = self.KERNEL // 2 * dilation
        self.before = 0 if later else 2 * reach
        self.conv = nn.Conv1d(self.reads, width, self.KERNEL, padding=reach * later, dilation=dilation)

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None = None) -> Tensor:
        """What it reads, (T, B, C') or (T, B, C), to (T, B, C'), of whole sentences, padding being read as zeros."""
        words = masks.cleared_tokens(x).permute(1, 2, 0)
        return self.conv(F.pad(words, (self.before, 0)) if self.before else words).permute(2, 0, 1)
