"""Synthetic attention: Tay et al., Synthesizer: Rethinking Self-Attention for Transformer Models, ICML 2021.

Scores are not computed from pairs of tokens: a head knows a number for each place in a sentence, of which there are at
most ``length`` N, padding not counted.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import split_heads
from ea_fairseq.terms.weights import weights_by_head


class Synthesizer(Term):
    """What both kinds share."""

    longest: int

    def __init__(self, length: int):
        super().__init__()
        self.longest = length

    def places(self, inputs: Inputs) -> tuple[Tensor, Tensor] | None:
        """Those of queries (B, T) and keys (B, S), from 0 to N - 1, or None; see :func:`token_numbers`.

        Raises:
            UserError: where a sentence is longer than N; fairseq lets none through, see ``max_positions``.
        """
        found, keys = token_numbers(inputs), inputs.size[3]
        if keys > self.longest and not torch.compiler.is_compiling():
            words = keys if found is None else int(found[1].max()) + 1
            if words > self.longest:
                raise UserError(f"--synthesizer-length is {self.longest}, and a sentence has {words} words")
        last = self.longest - 1
        return None if found is None else (found[0].clamp(max=last), found[1].clamp(max=last))


class DenseSynthesizer(Synthesizer):
    """F(x) = W2 ReLU(W1 x + b1) + b2, a number for each place of a key, from the query's vector x alone.

    Heads have d hidden units each. W1 is (C, C), of all heads, or (C, C') where x has C' channels; W2 (K, d, N);
    b2 (K, N).
    """

    def __init__(self, context: LayerContext, width: int, heads: int, length: int):
        super().__init__(length)
        self.read(width, width)
        self.weight = weights_by_head(heads, width // heads, length)
        self.bias = nn.Parameter(torch.zeros(heads, length))

    def read(self, channels: int, width: int) -> None:
        """Makes W1 for tokens of so many channels, and for ``width`` C of all heads."""
        self.hidden = nn.Linear(channels, width)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        # ReLU(W1 x + b1), (T, B, C).
        hidden, keys, places = F.relu(self.hidden(inputs.x)), inputs.size[3], self.places(inputs)
        # Times W2, plus b2, for as many places as there are keys.
        scores = split_heads(hidden, len(self.weight)) @ self.weight[..., :keys]
        scores = scores + self.bias[:, None, :keys].type_as(scores)
        # Each key has the score of its place, which padding moves.
        return scores if places is None else scores.gather(-1, places[1][:, None, None].expand(*scores.shape[:3], -1))


class RandomSynthesizer(Synthesizer):
    """A number for each place of a query and of a key, learned, of no token at all: (K, N, N)."""

    def __init__(self, context: LayerContext, width: int, heads: int, length: int):
        super().__init__(length)
        self.map = weights_by_head(heads, length, length)

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S), or with padding (B, K, T, S)."""
        (*_, queries, keys), places = inputs.size, self.places(inputs)
        # Without padding, tokens are at their places in the tensor, queries at the last of these.
        scores = self.map[:, :keys, :keys].type_as(inputs.v)
        if places is None:
            return scores[:, keys - queries :]
        # With it, gather the score of each pair of places, (B, T, S).
        rows, columns = places
        pairs = rows.unsqueeze(2) * scores.size(2) + columns.unsqueeze(1)
        return F.embedding(pairs, scores.flatten(1).T).permute(0, 3, 1, 2)


def token_numbers(inputs: Inputs) -> tuple[Tensor, Tensor] | None:
    """The positions of a self-attention's queries (B, T) and keys (B, S), counted from 0, padding left out.

    Padding has any position. None where there is no padding: keys then are 0 to S - 1, queries the last T of them.
    """
    padded = inputs.masks.padded_keys
    if padded is None:
        return None
    keys = ((~padded).cumsum(dim=-1) - 1).clamp(min=0)
    return keys[:, keys.size(1) - inputs.size[2] :], keys
