"""Scaled dot products of queries and keys."""

from torch import Tensor

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.term import Term


class DotProduct(Term):
    """Q K^T / sqrt(d) (EA eq. 1)."""

    needs = "qk"

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        return (inputs.q * inputs.scale) @ inputs.k.transpose(-1, -2)
