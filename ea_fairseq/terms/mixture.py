"""A weighted sum of two terms, learned by each head: Tay et al., see ``synthesizer.py``."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.term import Term


class Mixture(Term):
    """(1 - a) first + a second, with a learned weight a for each head, initially 1/2 ("Mixture of Synthesizers").

    The paper only says that the weights sum to one. As in the authors' code, a is the sigmoid of a parameter, but that
    code has one weight for all heads.
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
