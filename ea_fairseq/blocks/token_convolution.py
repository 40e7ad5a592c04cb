"""A convolution over words beside self-attention: Predictive Attention Transformer, submitted to ICLR 2021 ("PA")."""

from torch import Tensor, nn

from ea_fairseq.analysis.count import Count
from ea_fairseq.attention.masks import AttentionMasks
from ea_fairseq.blocks.branch import Branch


class TokenConvolution(Branch):
    """A convolution over each word and its two neighbours, with bias, to C' channels (PA, section 4.1.1 and B.1).

    What stands around it the paper does not say: here nothing does, no norm and no ReLU, as nothing stands around
    self-attention; the layer's own norm and feed-forward come after both.
    """

    KERNEL = 3

    def __init__(self, width: int, reads: int | None = None):
        super().__init__(width, reads)
        self.conv = nn.Conv1d(self.reads, width, self.KERNEL, padding=self.KERNEL // 2)

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None = None) -> Tensor:
        """What it reads, (T, B, C') or (T, B, C), to (T, B, C'), of whole sentences, padding being read as zeros."""
        return self.conv(masks.cleared_tokens(x).permute(1, 2, 0)).permute(2, 0, 1)

    def cost(self, tokens: int) -> Count:
        """Of one sentence of ``tokens`` T; margins of zeros count, too."""
        taps = self.KERNEL * self.reads
        return Count((taps + 1) * self.width, taps * self.width * tokens)
