"""Quadratic positions: Cordonnier et al., On the Relationship between Self-Attention and Convolutional Layers, ICLR
2020 ("CONV-SA")."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class QuadraticPositions(Term):
    """-a (delta - c)^2 for the distance delta = j - i, with a centre c and a width of each head (CONV-SA eq. 9).

    The softmax of this alone is a Gaussian around c, and its standard deviation the width: a = 1 / (2 width^2). Near
    the ends of a sentence, where no token is at the centre, most goes to the token that is nearest to it.

    Attributes:
        centre: (K,), in tokens after the query. A decoder reads it as -|centre|: no token is later than the query, and
            whatever centre a head has, it says which token the head attends to.
        sharpness: (K,), 1 / width but for its sign.
    """

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__()
        self.looks_back = context.kind == "decoder"
        self.centre = nn.Parameter(torch.randn(heads) * 2)  # CONV-SA section 4.2
        self.sharpness = nn.Parameter(torch.ones(heads))

    @property
    def centres(self) -> Tensor:
        """c, (K,)."""
        return -self.centre.abs() if self.looks_back else self.centre

    @property
    def widths(self) -> Tensor:
        """Standard deviations in tokens, (K,)."""
        return 1 / self.sharpness.abs()

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S)"""
        queries, keys = inputs.positions
        exact = torch.promote_types(self.centre.dtype, torch.float32)
        centres, sharpness = (number.to(exact)[:, None, None] for number in (self.centres, self.sharpness))
        # (delta - c) / width of each head, (K, T, S).
        offsets = sharpness * (keys - queries.unsqueeze(1) - centres)
        # float16 has no number for the square of 400 tokens, and a convolution adds up many of them.
        lowest = torch.finfo(inputs.v.dtype).min / 32
        return (offsets.pow(2) / -2).clamp(min=lowest).type_as(inputs.v)
