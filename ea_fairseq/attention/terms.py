"""Terms that own logits are the sum of."""

from torch import Tensor, nn

from ea_fairseq.analysis.count import Count
from ea_fairseq.attention.inputs import Inputs


class Term(nn.Module):
    """A summand of an attention's own logits."""

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits (B, K, T, S), or what spreads over them; ``inputs`` are of whole sentences or of a decoding step."""
        raise NotImplementedError

    def cost(self, queries: int, keys: int, width: int) -> Count:
        """Of one attention of ``queries`` T and ``keys`` S tokens and ``width`` C of all heads."""
        raise NotImplementedError


class DotProduct(Term):
    """Q K^T / sqrt(d) (EA eq. 1)."""

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        return (inputs.q * inputs.scale) @ inputs.k.transpose(-1, -2)

    def cost(self, queries: int, keys: int, width: int) -> Count:
        """The products; scaling queries counts with the element-wise operations."""
        return Count(macs=queries * keys * width)
