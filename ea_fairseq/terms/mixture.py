"""Terms that a head weighs against each other: Tay et al., see ``synthesizer.py``."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.term import Term


class Mixture(Term):
    """(1 - a) first + a second, a learned weight a for each head, which starts at 1/2 ("Mixture of Synthesizers").

    The paper has weights that sum to one and says no more; as in its authors' code, which has one for all heads, a is
    the sigmoid of a number.
    """

    def __init__(self, first: Term, second: Term, heads: int):
        super().__init__()
        self.first, self.second = first, second
        self.weight = nn.Parameter(torch.zeros(heads))
        self.needs = first.needs + second.needs

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        first, second = self.first(inputs), self.second(inputs)
        return torch.lerp(first, second, self.weight.sigmoid().view(-1, 1, 1).type_as(first))
