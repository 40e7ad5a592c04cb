"""Concatenative scores: Wang et al., Convolution-enhanced Evolving Attention Networks, 2023 ("CEAN")."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term, weights_by_head


class Concatenative(Term):
    """w5 tanh(q W6 [k; q] / d), with a scalar w5 and a matrix W6 (d, 2 d) for each head (CEAN eq. 11, third line).

    This is the printed equation for one query and one key; without its factor Q^T it would be ``Additive`` with the
    weights concatenated. The product is divided by d, and w5 is initialized to sqrt(d), so small scores have the scale
    of multiplicative ones, and w5 bounds the others.
    """

    needs = "qk"

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__()
        d = width // heads
        self.weight = weights_by_head(heads, d, 2 * d)
        self.factor = nn.Parameter(torch.full((heads,), d**0.5))

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        # q W6, whose halves meet the key and the query.
        for_key, for_query = ((inputs.q * inputs.scale**2) @ self.weight).chunk(2, dim=-1)
        # Their products, (B, K, T, S), and the tanh, weighed by w5.
        scores = for_key @ inputs.k.transpose(-1, -2) + (for_query * inputs.q).sum(-1, keepdim=True)
        return scores.tanh() * self.factor.view(-1, 1, 1).type_as(scores)
