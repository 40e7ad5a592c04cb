"""Lightweight convolutions in attention: Chang et al., Convolutions and Self-Attention, ACL 2021 ("COMP")."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class Kernel(Term):
    """A kernel of 17 taps: REACH tokens before the query, the query itself and, except in decoders, REACH tokens after.

    Keys that are farther away have a score of zero.

    Args:
        elements: the number of elements of each tap.
    """

    REACH = 8

    def __init__(self, context: LayerContext, elements: int):
        super().__init__()
        self.later = 0 if context.kind == "decoder" else self.REACH
        self.weight = nn.Parameter(torch.zeros(elements, self.REACH + 1 + self.later))

    @staticmethod
    def distances(inputs: Inputs) -> Tensor:
        """j - i of query i and key j, (T, S)."""
        queries, keys = inputs.positions
        return keys - queries.unsqueeze(1)

    def spread(self, taps: Tensor, distances: Tensor) -> Tensor:
        """Gathers the taps (..., N, taps) of N tokens for their distances (N, M) to M others, as (..., N, M)."""
        # Keys beyond the kernel get an additional tap of zero.
        beyond = (distances < -self.REACH) | (distances > self.later)
        index = (distances + self.REACH).masked_fill(beyond, taps.size(-1))
        return F.pad(taps, (0, 1)).gather(-1, index.expand(*taps.shape[:-2], -1, -1))


class FixedConvolution(Kernel):
    """b[j - i], with a kernel for each head (COMP eq. 4); ``weight`` is (K, taps)."""

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__(context, heads)

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S)"""
        distances = self.distances(inputs)
        taps = self.weight.unsqueeze(1).expand(-1, len(distances), -1)
        return self.spread(taps, distances).type_as(inputs.v)


class DynamicConvolution(Kernel):
    """(x_i W^Q) . w[j - i] / sqrt(d), from the query (COMP eq. 5); heads share ``weight`` (d, taps)."""

    needs = "q"

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__(context, width // heads)
        nn.init.xavier_uniform_(self.weight)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        return self.spread(inputs.q @ (self.weight * inputs.scale), self.distances(inputs))


class KeyConvolution(DynamicConvolution):
    """(x_j W^K) . w[j - i] / sqrt(d), from the key (COMP section 3.2); heads share ``weight`` (d, taps)."""

    needs = "k"

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        return self.spread(inputs.k @ (self.weight * inputs.scale), self.distances(inputs).T).transpose(-1, -2)
