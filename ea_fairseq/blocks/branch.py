"""The interface of a branch that is parallel to self-attention."""

from torch import Tensor, nn

from ea_fairseq.kernels.masks import AttentionMasks


class Branch(nn.Module):
    """Computes the last ``width`` channels of a layer's output, in parallel to self-attention, which computes the rest.

    Args:
        width: C' channels.
        reads: the number of channels that it reads: only the last C' by default, or all of the layer's; self-attention
            then reads all of them, too.
    """

    def __init__(self, width: int, reads: int | None = None):
        super().__init__()
        self.width, self.reads = width, reads or width

    def share(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Splits tokens x (T, B, C) into the inputs of self-attention and of the branch."""
        if self.reads == x.size(-1):
            return x, x
        attended, rest = x.split((x.size(-1) - self.width, self.width), dim=-1)
        return attended.contiguous(), rest.contiguous()

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None) -> Tensor:
        """(T, B, C') or (T, B, C) -> (T, B, C').

        Args:
            x: whole sentences, or with ``incremental_state`` the tokens of one decoding step.
            masks: those of self-attention; ``padded_keys`` (B, T) is true at padding.
        """
        raise NotImplementedError
