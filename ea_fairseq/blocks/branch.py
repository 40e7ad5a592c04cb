"""A branch beside self-attention."""

from torch import Tensor, nn

from ea_fairseq.analysis.count import Count
from ea_fairseq.attention.masks import AttentionMasks


class Branch(nn.Module):
    """Takes the last ``width`` channels of what a self-attention reads; its output comes after the attention's.

    Args:
        width: C' channels.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None) -> Tensor:
        """(T, B, C') -> (T, B, C')

        Args:
            x: of whole sentences, or with ``incremental_state`` of one decoding step.
            masks: those of the self-attention; ``padded_keys`` (B, T) is true at padding.
        """
        raise NotImplementedError

    def cost(self, tokens: int) -> Count:
        """Of one sentence of ``tokens`` T."""
        raise NotImplementedError
