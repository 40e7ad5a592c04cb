"""Numbers of each head that depend on a word, such as its gates."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.kernels.attend import split_heads

GAIN = 2**-0.5  # as fairseq initialises an attention's projections


class ByWord(nn.Module):
    """Linear functions of words without a bias, n for each head: (T, B, C) -> (B, K, T, n).

    Its ``weight`` is (K, n, C).

    Args:
        start: initialises the weight, seen as (K n, C), in place.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        numbers: int = 1,
        start: Callable[[Tensor], object] = lambda weight: nn.init.xavier_uniform_(weight, GAIN),
    ):
        super().__init__()
        self.heads, self.numbers, self.start = heads, numbers, start
        self.read(channels)

    def read(self, channels: int, width: int = 0) -> None:
        """Rebuilds the weight for words of so many channels."""
        weight = torch.empty(self.heads, self.numbers, channels)
        self.start(weight.flatten(0, 1))
        self.weight = nn.Parameter(weight)

    def joined(self, x: Tensor) -> Tensor:
        """(T, B, C) -> (T, B, K n)"""
        return F.linear(x, self.weight.flatten(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, C) -> (B, K, T, n)"""
        return split_heads(self.joined(x), self.heads)
