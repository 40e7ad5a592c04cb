"""Relative positions: Shaw et al., Self-Attention with Relative Position Representations, NAACL 2018 ("Shaw")."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class ShawPositions(Term):
    """q_i . w[j - i] / sqrt(d), with distances clipped to ``reach`` tokens (Shaw eq. 4 and 5; EA eq. 2).

    All heads have the same embeddings w (2 * reach + 1, d); in a decoder, where nothing later is seen, (reach + 1, d).
    With ``values``, sum_j A_ij u[j - i] is added to the output (Shaw eq. 3), with embeddings u of the same size.
    """

    needs = "q"
    REACH = 16

    def __init__(self, context: LayerContext, width: int, heads: int, reach: int = REACH, values: bool = False):
        super().__init__()
        self.reach, self.later = reach, 0 if context.kind == "decoder" else reach
        self.has_values = values
        self.weight = nn.Parameter(torch.empty(reach + 1 + self.later, width // heads))
        self.value_weight = nn.Parameter(torch.empty_like(self.weight)) if values else None
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def distances(self, inputs: Inputs) -> Tensor:
        """Returns the row of the embeddings for each query and key, (T, S)."""
        queries, keys = inputs.positions
        return (keys - queries.unsqueeze(1)).clamp(-self.reach, self.later) + self.reach

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        # Scores of each query for all distances, (B, K, T, number of distances).
        scores = (inputs.q * inputs.scale) @ self.weight.T
        # Each key has the score of its distance.
        return scores.gather(-1, self.distances(inputs).expand(*scores.shape[:2], -1, -1))

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """(B, K, T, d)  (Shaw eq. 3 without x_j W^V), from the total weight of each distance."""
        assert self.value_weight is not None  # if ``has_values``
        # Sum the weights of all keys at a distance, precisely, because many distances are clipped to ``reach``.
        exact = torch.promote_types(weights.dtype, torch.float32)
        of_distances = weights.new_zeros(*weights.shape[:3], len(self.value_weight), dtype=exact)
        of_distances = of_distances.scatter_add(-1, self.distances(inputs).expand_as(weights), weights.to(exact))
        # Weigh the embeddings u of the distances.
        return of_distances.type_as(weights) @ self.value_weight
