"""Forget gates: Lin et al., Forgetting Transformer, ICLR 2025 (arXiv 2503.02130, "FoX").

own_tj += sum_{i = j+1..t} log sigmoid(f_h . x_i + b_h) for a key j before the query t; in an encoder, separate gates
forget keys after the query: sum_{i = t+1..j}.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.by_word import ByWord
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term


class ForgetGates(Term):
    """How much of a key the words between it and the query forget: logarithms of products of gates.

    Parameters are ``gates`` (K, n, C) and ``bias`` (K, n), zero at the start, with n = 2 directions in an encoder.
    """

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__()
        directions = 2 if context.kind == "encoder" else 1
        self.gates = ByWord(width, heads, directions)
        self.bias = nn.Parameter(torch.zeros(heads, directions))

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        # log f of all words, zero at padding, summed from the first word to each, (n, B, K, S).
        gates = inputs.masks.cleared_tokens(inputs.of_keys("forget_gates", self.log_gates))
        sums = gates.cumsum(0).unflatten(-1, self.bias.shape).permute(3, 1, 2, 0)
        queries = sums[..., -inputs.size[2] :].unsqueeze(-1)
        # Words from the key to the query, or from the query to the key.
        between = queries[0] - sums[0].unsqueeze(-2)
        if len(sums) == 2:
            rows, columns = inputs.positions
            between = between.where(columns <= rows.unsqueeze(1), sums[1].unsqueeze(-2) - queries[1])
        return between.type_as(inputs.v)

    def log_gates(self, x: Tensor) -> Tensor:
        """log sigmoid(f_h . x_i + b_h), (S, B, C) -> (S, B, K n), at least in float32, because many are summed."""
        logits = self.gates.joined(x) + self.bias.flatten()
        return F.logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
