"""Multiplicative scores: Luong et al., Effective Approaches to Attention-based Neural Machine Translation, 2015."""

from torch import Tensor

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term, weights_by_head


class Multiplicative(Term):
    """q W1 k / sqrt(d), with a matrix W1 (d, d) for each head (CEAN eq. 11, first line; "general" in Luong et al.).

    They are scaled like dot products, because they have the same variance if entries of W1 have the variance 1 / d.
    """

    needs = "qk"

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__()
        self.weight = weights_by_head(heads, width // heads, width // heads)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        return (inputs.q * inputs.scale) @ self.weight @ inputs.k.transpose(-1, -2)
