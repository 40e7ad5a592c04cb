"""The terms of an attention's scores."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs


class Term(nn.Module):
    """A summand of an attention's scores.

    Its constructor takes a :class:`~ea_fairseq.attention.mechanism.LayerContext`, the width C of all heads and their
    number K; the layers of a stack may share a term.
    """

    needs: str = ""  # "q", "k" or "qk": whether it reads projected queries and keys
    longest: int | None = None  # the most tokens of a sentence, if there is a limit
    has_values = False  # whether it adds to the attention's output, see :meth:`values`

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores, broadcastable to (B, K, T, S); ``inputs`` are those of whole sentences or of a decoding step."""
        raise NotImplementedError

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Returns an addend of the attention's output, (B, K, T, d), from the weights of the values, (B, K, T, S)."""
        raise NotImplementedError


def weights_by_head(heads: int, inputs: int, outputs: int) -> nn.Parameter:
    """Returns a matrix for each head, (K, inputs, outputs), each initialized by ``nn.init.xavier_uniform_``."""
    bound = (6 / (inputs + outputs)) ** 0.5
    return nn.Parameter(torch.empty(heads, inputs, outputs).uniform_(-bound, bound))
