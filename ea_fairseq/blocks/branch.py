"""A branch beside self-attention."""

from torch import Tensor, nn

from ea_fairseq.kernels.masks import AttentionMasks


class Branch(nn.Module):
    """Gives the last ``width`` channels of what a layer's attention and branch give; the attention gives the others.

    Args:
        width: C' channels.
        reads: channels that it reads: these alone, by default, or all of the layer's, which the attention then reads,
            too.
    """

    def __init__(self, width: int, reads: int | None = None):
        super().__init__()
        self.width, self.reads = width, reads or width

    def share(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the self-attention and what the branch reads of tokens x (T, B, C)."""
        if self.reads == x.size(-1):
            return x, x
        attended, rest = x.split((x.size(-1) - self.width, self.width), dim=-1)
        return attended.contiguous(), rest.contiguous()

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None) -> Tensor:
        """What it reads, (T, B, C') or (T, B, C), to (T, B, C')

        Args:
            x: of whole sentences, or with ``incremental_state`` of one decoding step.
            masks: those of the self-attention; ``padded_keys`` (B, T) is true at padding.
        """
        raise NotImplementedError
