"""Additive scores: Bahdanau et al., Neural Machine Translation by Jointly Learning to Align and Translate, 2015."""

from torch import Tensor

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term, weights_by_head


class Additive(Term):
    """w2 . tanh(W3 k + W4 q), with w2 (d), W3 and W4 (d, d) for each head (CEAN eq. 11, second line).

    CEAN prints a factor Q^T within the tanh, with which W2 would need a row for each token; we leave it out, as
    Bahdanau et al. and Luong et al. ("concat") do. Scores are not scaled: the tanh bounds each summand by its weight.
    """

    needs = "qk"

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__()
        d = width // heads
        self.key_weight, self.query_weight = weights_by_head(heads, d, d), weights_by_head(heads, d, d)
        self.weight = weights_by_head(heads, d, 1)

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S), by way of (B, K, T, S, d)."""
        # W3 k and W4 q, (B, K, S, d) and (B, K, T, d).
        keys, queries = inputs.k @ self.key_weight, inputs.q @ self.query_weight
        # The tanh of the sum of each pair, and its product with w2.
        hidden = (keys.unsqueeze(2) + queries.unsqueeze(3)).tanh()
        return (hidden @ self.weight.unsqueeze(1)).squeeze(-1)
