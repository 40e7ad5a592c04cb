"""Relative positions: Raffel et al., Exploring the Limits of Transfer Learning, JMLR 2020 ("T5")."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class T5Positions(Term):
    """b[j - i], a bias for each head and bucket of distances (T5 section 2.1), shared by all layers of a stack.

    ``weight`` is (buckets, K). In an encoder, half of the 32 buckets are for the query and tokens before it, and half
    for tokens after it. T5's first bucket of the second half, for 0 tokens after, is never used, so it is left out,
    unless published weights have to fit. In a decoder, all buckets are for the query and tokens before it.
    """

    BUCKETS = 32
    FARTHEST = 128  # larger distances are clipped to this
    buckets: Tensor

    def __init__(self, context: LayerContext, width: int, heads: int, published: bool = False):
        """
        Args:
            published: whether the table has the bucket that is never used.
        """
        super().__init__()
        self.later = 0 if context.kind == "decoder" else self.FARTHEST
        before = self.BUCKETS // 2 if self.later else self.BUCKETS
        buckets = [self.bucket(distance, before) for distance in range(self.FARTHEST, -1, -1)]
        first = before if published else before - 1  # of later tokens
        buckets += [first + self.bucket(distance, before) for distance in range(1, self.later + 1)]
        self.register_buffer("buckets", torch.tensor(buckets), persistent=False)  # of -FARTHEST .. later
        self.weight = nn.Parameter(torch.empty(max(buckets) + 1, heads))
        nn.init.normal_(self.weight, std=width**-0.5)  # as in T5's code

    @classmethod
    def of_stack(cls, context: LayerContext, width: int, heads: int, published: bool = False) -> "T5Positions":
        """Returns the term that all layers of the stack share."""
        shared = context.shared.get("t5")
        if not isinstance(shared, T5Positions):
            shared = context.shared["t5"] = cls(context, width, heads, published)
        return shared

    @classmethod
    def bucket(cls, distance: int, buckets: int) -> int:
        """Returns the bucket of a distance of 0 or more tokens: its own in the first half, then ever wider ones."""
        exact = buckets // 2
        if distance < exact:
            return distance
        part = math.log2(distance / exact) / math.log2(cls.FARTHEST / exact)
        return min(exact + int(part * (buckets - exact)), buckets - 1)

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S)"""
        queries, keys = inputs.positions
        # Distances (T, S) as rows of the table, clipped to FARTHEST.
        distances = (keys - queries.unsqueeze(1)).clamp(-self.FARTHEST, self.later) + self.FARTHEST
        # The bias of each head for the bucket of each distance.
        return F.embedding(self.buckets[distances], self.weight).permute(2, 0, 1).type_as(inputs.v)
