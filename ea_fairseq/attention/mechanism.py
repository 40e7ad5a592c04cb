"""The steps of an attention that a mechanism overrides, and what others ask of it."""

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
class LayerContext:
    """Which layer of a stack an attention is built for.

    Args:
        kind: ``encoder``, ``decoder`` (self-attentions) or ``cross`` (encoder-decoder attention).
        layer: number of its layer, from 0.
        shared: what layers of the stack share, by a name that a mechanism or a term chooses.
    """

    kind: str
    layer: int
    shared: dict[str, nn.Module] = field(default_factory=dict)


Place = LayerContext  # its name of before


class Mechanism:
    """What happens to scores, to probabilities and to values: as it is, what happens in plain attention.

    Maps are (B, K, T, S): sentences, heads, queries, keys. ``inputs`` are of whole sentences or of a decoding step.
    An argument ``options`` is of the class's own ``options``.
    """

    options: ClassVar[type[Options]] = Options  # flags of fairseq's commands
    title: ClassVar[str] = "attention"
    adds: ClassVar[str] = "parameters"  # what its parameters are called in tables and logs
    marker: ClassVar[str | None] = None  # name of an empty buffer that tells its checkpoints, where parameters do not
    passes_logits = False  # whether the next layer's attention of the same kind reads this one's logits
    passes_values = False  # whether it reads ``Inputs.first_values``
    # What kernels may compute in place of scores, combine, transform and normalize: of a class that has it in its own
    # body. Of the others, subclasses too, PyTorch computes the steps.
    fused: FusedLogits | None = None
    can_fuse_values = True  # whether kernels may do what comes after the softmax, too: reweigh and values are plain

    @classmethod
    def build_branch(cls, options: Any, context: LayerContext, embed_dim: int, num_heads: int) -> nn.Module | None:
        """What takes some of a layer's ``embed_dim`` channels beside self-attention of K heads; None: nothing."""
        return None

    @classmethod
    def width_of_heads(cls, options: Any, embed_dim: int, num_heads: int) -> int:
        """How many elements of a token all K heads have together: its ``embed_dim`` C, as in fairseq."""
        return embed_dim

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether attentions of a kind in these layers, in order, compute in layers 0, 1, 2, ... what they do there."""
        return True

    def receive(self, previous: Tensor, inputs: Inputs) -> Tensor:
        """What ``combine`` and kernels take for the logits of the layer below, (B, K, T, S), zero where masked."""
        return previous

    def combine(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """Scores, combined with ``inputs.previous``, the logits of the layer below; None in the first layer."""
        return scores

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """What the softmax takes of combined logits; what masked entries hold is arbitrary, before and after."""
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

    def start_from_plain(self, options: Any) -> str:
        """Initialises what a plain Transformer's checkpoint does not have; returns how, for the log."""
        return "at random"

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """What dashboards show of an attention of a name and kind, each by the function that measures it."""
        return {}
