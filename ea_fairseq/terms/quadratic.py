"""Quadratic positions: Cordonnier et al., On the Relationship between Self-Attention and Convolutional Layers, ICLR
2020 ("CONV-SA")."""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class QuadraticPositions(Term):
    """-a (delta - c)^2 for the distance delta = j - i, with a centre c and a width for each head (CONV-SA eq. 9).

    The softmax of this term alone is a Gaussian around c with the width as its standard deviation: a = 1 / (2 width^2).
    Near the ends of a sentence, if no token is at the centre, the nearest one has the largest probability.

    Attributes:
        centre: (K,), in tokens after the query. Decoders use -abs(centre), because they attend to no later tokens.
        sharpness: (K,), 1 / width; its sign has no effect.
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
        # The square of 400 tokens overflows float16, and a convolution adds up many of these scores.
        lowest = torch.finfo(inputs.v.dtype).min / 32
        return (offsets.pow(2) / -2).clamp(min=lowest).type_as(inputs.v)
