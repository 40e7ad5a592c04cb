"""What the steps of an attention read, be it of whole sentences or of one decoding step."""

from typing import Protocol

from torch import Tensor

from ea_fairseq.attention.masks import AttentionMasks
from ea_fairseq.kernels.fused_logits import FusedLogits


class Inputs(Protocol):
    """``Sentences`` (attention.py) and ``DecodingStep`` (decoding/cache.py), of B rows, T queries and S keys.

    Attributes:
        x: (T, B, C), what queries are projected from; in a decoding step, T is 1.
        size: (B, K, T, S), of the attention's maps.
        scale: of the dot product, 1 / sqrt(d).
        q, k, v: queries (B, K, T, d), keys and values (B, K, S, d), projected; see :meth:`prepare`.
        previous: logits (B, K, T, S) of the layer below, zero at masked entries; None in the first layer.
        masks: of these maps.
    """

    x: Tensor
    size: tuple[int, int, int, int]
    scale: float
    q: Tensor
    k: Tensor
    v: Tensor
    previous: Tensor | None
    masks: AttentionMasks

    def prepare(self) -> None:
        """Makes what kernels for whole attentions do without: q, k and v; masks and previous logits in full size.

        Raises:
            ValueError: where masks or previous logits are of another size.
        """

    @property
    def positions(self) -> tuple[Tensor, Tensor]:
        """Of queries (T,) and of keys (S,), counted from 0."""

    def rows_before(self, name: str, rows: Tensor, count: int) -> Tensor | None:
        """The ``count`` rows of maps before these, (B, K, count, S), or None for zeros: a sentence begins here.

        A decoding step has earlier rows, and remembers ``rows`` (B, K, 1, S), by their name, for the steps after it.
        """

    def attend(self, fused: FusedLogits, need_weights: bool) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """Output (T, B, C), probabilities or None, logits (B, K, T, S) if a next layer may read them, by one kernel.

        None where there is no kernel for this.
        """

    def evolve(self, fused: FusedLogits, exact: bool, scores) -> tuple[Tensor, Tensor] | None:
        """Logits and probabilities (B, K, T, S), by one kernel; None where there is none for them.

        Args:
            exact: probabilities must not be rounded to half precision.
            scores: makes of these inputs own logits (B, K, T, S), and the number that they are still to be scaled by.
        """
