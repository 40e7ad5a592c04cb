"""Relative positions: Shaw et al., Self-Attention with Relative Position Representations, NAACL 2018 ("Shaw")."""

import torch
from torch import Tensor, nn

from ea_fairseq.analysis.count import Count
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import Place
from ea_fairseq.attention.term import Term


class ShawPositions(Term):
    """q_i . w[j - i] / sqrt(d), distances of more than ``reach`` words counting as that (Shaw eq. 4 and 5; EA eq. 2).

    All heads have the same embeddings w (2 * reach + 1, d); in a decoder, where nothing later is seen, (reach + 1, d).
    """

    needs = "q"
    REACH = 16

    def __init__(self, place: Place, width: int, heads: int, reach: int = REACH):
        super().__init__()
        self.reach, self.later = reach, 0 if place.kind == "decoder" else reach
        self.weight = nn.Parameter(torch.empty(reach + 1 + self.later, width // heads))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        queries, keys = inputs.positions
        distances = (keys - queries.unsqueeze(1)).clamp(-self.reach, self.later) + self.reach  # (T, S)
        scores = (inputs.q * inputs.scale) @ self.weight.T  # (B, K, T, number of distances)
        return scores.gather(-1, distances.expand(*scores.shape[:2], -1, -1))

    def cost(self, queries: int, keys: int, width: int) -> Count:
        """A product of each query with each embedding."""
        return Count(self.weight.numel(), queries * len(self.weight) * width)

    def element_wise(self, queries: int, keys: int, width: int) -> int:
        """The scaling of queries."""
        return queries * width
