"""Synthetic attention: Tay et al., Synthesizer: Rethinking Self-Attention for Transformer Models, ICML 2021.

Scores are not computed from pairs of tokens: a head has a score for each of at most ``length`` N positions in a
sentence, not counting padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term, weights_by_head
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import split_heads


class Synthesizer(Term):
    """Code that both synthesizers share: the positions of tokens, and the limit of the sentence length.

    Raises:
        UserError: if an image has more than ``length`` N tokens.
    """

    longest: int

    def __init__(self, context: LayerContext, length: int):
        super().__init__()
        self.longest = length
        if context.grid is not None and context.grid.tokens > length:
            raise UserError(f"--synthesizer-length is {length}, but an image has {context.grid.tokens} tokens")

    def positions(self, inputs: Inputs) -> tuple[Tensor, Tensor] | None:
        """Returns the positions of queries (B, T) and keys (B, S), limited to N - 1; see :func:`unpadded_positions`.

        Raises:
            UserError: if a sentence is longer than N; fairseq removes such sentences, see ``max_positions``.
        """
        found, keys = unpadded_positions(inputs), inputs.size[3]
        if keys > self.longest and not torch.compiler.is_compiling():
            tokens = keys if found is None else int(found[1].max()) + 1
            if tokens > self.longest:
                raise UserError(f"--synthesizer-length is {self.longest}, but a sentence has {tokens} tokens")
        last = self.longest - 1
        return None if found is None else (found[0].clamp(max=last), found[1].clamp(max=last))


class DenseSynthesizer(Synthesizer):
    """F(x) = W2 ReLU(W1 x + b1) + b2, a score for each key position, computed from the query's vector x only.

    Heads have d hidden units each. W1 is (C, C) for all heads, or (C, C') if x has C' channels; W2 is (K, d, N), and b2
    is (K, N).
    """

    def __init__(self, context: LayerContext, width: int, heads: int, length: int):
        super().__init__(context, length)
        self.read(width, width)
        self.weight = weights_by_head(heads, width // heads, length)
        self.bias = nn.Parameter(torch.zeros(heads, length))

    def read(self, channels: int, width: int) -> None:
        """Builds W1 for tokens with so many channels, and for the ``width`` C of all heads."""
        self.hidden = nn.Linear(channels, width)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        # ReLU(W1 x + b1), (T, B, C).
        hidden, keys, positions = F.relu(self.hidden(inputs.x)), inputs.size[3], self.positions(inputs)
        # Times W2, plus b2, for as many positions as there are keys.
        scores = split_heads(hidden, len(self.weight)) @ self.weight[..., :keys]
        scores = scores + self.bias[:, None, :keys].type_as(scores)
        # Each key has the score of its position, which padding shifts.
        if positions is None:
            return scores
        return scores.gather(-1, positions[1][:, None, None].expand(*scores.shape[:3], -1))


class RandomSynthesizer(Synthesizer):
    """A learned score for each pair of a query position and a key position, independent of the tokens: (K, N, N)."""

    def __init__(self, context: LayerContext, width: int, heads: int, length: int):
        super().__init__(context, length)
        self.map = weights_by_head(heads, length, length)

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S), or with padding (B, K, T, S)."""
        (*_, queries, keys), positions = inputs.size, self.positions(inputs)
        # Without padding, positions are indices of the tensor; queries have the last ones.
        scores = self.map[:, :keys, :keys].type_as(inputs.v)
        if positions is None:
            return scores[:, keys - queries :]
        # With padding, gather the score of each pair of positions, (B, T, S).
        rows, columns = positions
        pairs = rows.unsqueeze(2) * scores.size(2) + columns.unsqueeze(1)
        return F.embedding(pairs, scores.flatten(1).T).permute(0, 3, 1, 2)


def unpadded_positions(inputs: Inputs) -> tuple[Tensor, Tensor] | None:
    """Returns the positions of a self-attention's queries (B, T) and keys (B, S), from 0, not counting padding.

    Positions at padding are arbitrary. Without padding it returns None: keys then have the positions 0 to S - 1, and
    queries the last T of these.
    """
    padded = inputs.masks.padded_keys
    if padded is None:
        return None
    keys = ((~padded).cumsum(dim=-1) - 1).clamp(min=0)
    return keys[:, keys.size(1) - inputs.size[2] :], keys
