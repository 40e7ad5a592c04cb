"""The steps of an attention that a mechanism overrides, and what models and tables need to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import probabilities
from ea_fairseq.options import Options

if TYPE_CHECKING:
    from ea_fairseq.attention.inputs import Inputs

Measure = Callable[[], float]


@dataclass(frozen=True)
class Grid:
    """The pixels or patches of an image as tokens, row after row.

    Args:
        rows, columns: of the grid.
        leading: tokens before the first pixel, such as a class token.
    """

    rows: int
    columns: int
    leading: int = 0

    @property
    def tokens(self) -> int:
        """The number of all tokens."""
        return self.leading + self.rows * self.columns


@dataclass(frozen=True)
class LayerContext:
    """Which layer of a stack an attention is built for.

    Args:
        kind: ``encoder``, ``decoder`` (self-attentions) or ``cross`` (encoder-decoder attention).
        layer: number of its layer, from 0; a new stack begins where the size of maps changes within a model.
        shared: modules that the layers of the stack share, by a name that a mechanism or a term chooses.
        grid: of pixels, if tokens are pixels.
    """

    kind: str
    layer: int
    shared: dict[str, nn.Module] = field(default_factory=dict)
    grid: Grid | None = None


Place = LayerContext  # the name that classes of a user-dir may still import


class Mechanism:
    """The steps from scores to output; these are the steps of plain attention, which a mechanism overrides.

    Maps are (B, K, T, S): sentences, heads, queries, keys. ``inputs`` are those of whole sentences or of a decoding
    step. An argument ``options`` is an instance of the class's ``options``.
    """

    options: ClassVar[type[Options]] = Options  # flags of fairseq's commands
    title: ClassVar[str] = "attention"
    adds: ClassVar[str] = "parameters"  # the name of its parameters in tables and logs
    marker: ClassVar[str | None] = None  # an empty buffer's name that marks its checkpoints if no parameter does
    passes_logits = False  # whether the next layer's attention of the same kind reads this one's logits
    passes_values = False  # whether it reads ``Inputs.first_values``, or what layers pass on instead of values
    # What kernels may compute instead of scores, combine, transform and normalize, if the class's own body defines it.
    # PyTorch computes the steps of all other classes, including subclasses.
    fused: FusedLogits | None = None
    has_branch = False  # whether its layers have a branch, see ``build_branch``; then it is for texts alone
    can_fuse_values = True  # whether kernels may also compute reweigh and values, because these are plain

    @classmethod
    def build_branch(cls, options: Any, context: LayerContext, embed_dim: int, num_heads: int) -> nn.Module | None:
        """A module that takes some of the layer's ``embed_dim`` channels in parallel with self-attention, or None."""
        return None

    @classmethod
    def width_of_heads(cls, options: Any, embed_dim: int, num_heads: int) -> int:
        """The total width of all K heads: ``embed_dim``, as in fairseq."""
        return embed_dim

    def fused_of(self, inputs: Inputs) -> FusedLogits | None:
        """What kernels may compute of these inputs: :attr:`fused`, perhaps with weights of their words."""
        return self.fused

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether attentions of these layers, in order, compute the same when they become layers 0, 1, 2, ..."""
        return True

    @classmethod
    def is_entrywise(cls, options: Any) -> bool:
        """Whether its steps read only the same entry of all heads, so that maps may have an entry for each edge."""
        return False

    @classmethod
    def fits_edges(cls, options: Any) -> bool:
        """Whether maps may have an entry for each edge: it is entrywise, and values stay as they are."""
        return cls.is_entrywise(options) and not cls.changes_values()

    @classmethod
    def changes_values(cls) -> bool:
        """Whether it changes values or how a head sums them."""
        return cls.values is not Mechanism.values or cls.passes_values

    def receive(self, previous: Tensor, inputs: Inputs) -> Tensor:
        """The logits of the layer below as ``combine`` and kernels read them, (B, K, T, S), arbitrary where masked."""
        return previous

    def combine(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """Scores, combined with ``inputs.previous``, the logits of the layer below; None in the first layer."""
        return scores

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """The logits of the softmax, from combined logits; masked entries are arbitrary, before and after."""
        return logits

    def normalize(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Probabilities: the softmax over keys that are not masked (EA eq. 5)."""
        return probabilities(logits, inputs.masks)

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Probabilities after the softmax."""
        return weights

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Output (B, K, T, d) from probabilities, after dropout (EA eq. 5)."""
        return weights @ inputs.v

    def maybe_unread(self) -> list[nn.Parameter]:
        """Parameters that a forward may not use, such as the weight of the layer below in the first layer."""
        return []

    def start_from_plain(self, options: Any) -> str:
        """Initialises the parameters that a plain Transformer's checkpoint lacks; returns how, for the log."""
        return "at random"

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """Metrics for dashboards of an attention of this name and kind, each with the function that measures it."""
        return {}
