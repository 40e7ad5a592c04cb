"""Lite Transformer: Wu et al., Lite Transformer with Long-Short Range Attention, ICLR 2020, arXiv 2004.11886.

In encoder and decoder, self-attention takes one half of the channels, for distant words, and a lightweight convolution
the other half, for words nearby; their outputs are concatenated. Encoder-decoder attention has the full width. Kernels,
heads and dropout of weights are those of the authors' code for IWSLT'14 (mit-han-lab/lite-transformer, embed160.yml).
"""

from dataclasses import dataclass

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.blocks.lightweight_convolution import LightweightBranch
from ea_fairseq.options import FRACTION, Options, option

KERNELS = (3, 7, 15, 31, 31, 31)  # by layer; higher layers have the last one


@dataclass(frozen=True)
class LightweightOptions(Options):
    """The flag of Lite Transformer.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    weight_dropout: float = option(0.1, FRACTION, "dropout of the weights of lightweight convolutions")


@register_mechanism("lite_transformer")
class LongShortRangeAttention(Attention):
    """Plain attention; self-attention has half of the width, and a lightweight convolution has the rest."""

    options = LightweightOptions
    title = "long-short range attention"
    has_branch = True
    fused = Attention.fused

    @classmethod
    def build_branch(
        cls, options: LightweightOptions, context: LayerContext, embed_dim: int, num_heads: int
    ) -> LightweightBranch:
        """Builds the convolution that is parallel to self-attention; in the decoder it reads no later token."""
        kernel = KERNELS[min(context.layer, len(KERNELS) - 1)]
        later = 0 if context.kind == "decoder" else kernel // 2
        return LightweightBranch(embed_dim // 2, kernel, later, num_heads, options.weight_dropout)

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether layers keep their number, which determines the kernel."""
        return layers == [*range(len(layers))]
