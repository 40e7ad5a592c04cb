"""Gated attention: Qiu et al., Gated Attention for Large Language Models, NeurIPS 2025 (arXiv 2505.06708).

O_h <- sigmoid(g_h . x_t) O_h in all three attentions, or with a gate for each channel; x_t is the query's word.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.by_word import ByWord
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options, one_of, option


@dataclass(frozen=True)
class GateOptions(Options):
    """The flag of gated attention."""

    gate: str = option(
        "head",
        one_of("head", "channel", metavar="OF"),
        "whether the gates of the query's word scale each head's output as a whole, or each channel of it",
    )


@register_mechanism("gated_attention")
class GatedAttention(Attention):
    """Attention whose heads are weighted by gates of the query's word before they are projected.

    Parameters are fairseq's plus ``gates`` (K, 1 or d, C), without a bias, initialized like projections.
    """

    options = GateOptions
    title = "gated attention"
    adds = "gates"
    fused = Attention.fused
    can_fuse_values = False

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, gate: str = "head", **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.gates = ByWord(embed_dim, num_heads, self.head_dim if gate == "channel" else 1)

    @classmethod
    def arguments(cls, options: Any, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "gate": options.gate}

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """sigmoid(g_h . x_t) O_h, (B, K, T, d)."""
        return super().values(weights, inputs) * self.gates(inputs.x).sigmoid()

    def start_from_plain(self, options: Any) -> str:
        """Initializes other parameters as their class does; gates, which have no neutral weights, stay random."""
        start = super().start_from_plain(options)
        return start if start == "at random" else f"{start}, gates at random"
