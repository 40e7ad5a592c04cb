"""What the scores of an attention are the sum of."""

from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs


class Term(nn.Module):
    """A summand of an attention's scores.

    A term is built of a :class:`~ea_fairseq.attention.mechanism.LayerContext`, the width C of all heads and their
    number K; layers of a stack may share it.
    """

    needs: str = ""  # "q", "k" or "qk": whether it reads projected queries and keys
    longest: int | None = None  # the most tokens of a sentence that it knows, where there is a limit
    has_values = False  # whether it adds to what is attended to, see :meth:`values`

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores (B, K, T, S), or what spreads over them; ``inputs`` are of whole sentences or of a decoding step."""
        raise NotImplementedError

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """What it adds to an attention's output, (B, K, T, d), by what weighs the values, (B, K, T, S)."""
        raise NotImplementedError
