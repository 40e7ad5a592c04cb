"""What the steps of an attention read, be it of whole sentences or of one decoding step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks

if TYPE_CHECKING:
    from ea_fairseq.attention.attention import Attention


class Inputs(Protocol):
    """``Sentences`` (attention.py) and ``DecodingStep`` (cache.py), of B rows, T queries and S keys.

    Attributes:
        x: (T, B, C), what queries are projected from; in a decoding step, T is 1.
        size: (B, K, T, S), of the attention's maps.
        scale: of the dot product, 1 / sqrt(d).
        q, k, v: queries (B, K, T, d), keys and values (B, K, S, d), projected, None where no term reads them; see
            :meth:`prepare`.
        previous: logits (B, K, T, S) of the layer below, zero at masked entries; None in the first layer, and where
            no logits are handed on.
        first_values: values (S, B, C) that the layer below hands on; None in the first layer, and where none are.
        masks: of these maps.
    """

    x: Tensor
    size: tuple[int, int, int, int]
    scale: float
    q: Tensor | None
    k: Tensor | None
    v: Tensor
    previous: Tensor | None
    first_values: Tensor | None
    masks: AttentionMasks

    def take(self, attention: Attention, handed_on: Tensor | None) -> None:
        """Sets ``previous`` and ``first_values`` to what the layer below handed on, if its attention hands that on."""
        self.previous = handed_on if attention.hands_on_logits else None
        self.first_values = handed_on if attention.hands_on_values else None

    def linear(self, x: Tensor, parts: str, attention: Attention) -> Tensor | None:
        """What ``Attention.projections`` make of tokens x (T, B, C), side by side, (T, B, n C); None without any."""

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

    def vectors_before(self, name: str, x: Tensor, count: int) -> Tensor | None:
        """The ``count`` vectors before those of tokens, (count, B, C), or None for zeros: a sentence begins here.

        A decoding step has earlier ones, and remembers its own x (1, B, C), by the name, for the steps after it.
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
