"""Conv-Transformer and PA-Conv-Transformer: Predictive Attention Transformer, submitted to ICLR 2021 ("PA").

In the encoder, self-attention computes one half of the channels and a convolution over tokens the other; the two are
concatenated (section 4.1.1, B.1, figure 4). In PA-Conv-Transformer that self-attention is predictive. The decoder is
fairseq's, because PA changes only the encoder.

The paper does not say which channels the two read. Here they read their own half in translation, and all channels in
classifiers, without a projection of the attention's output: the choice whose model size is closer to the printed one.
"""

from typing import Any

from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_classifier, register_mechanism
from ea_fairseq.attention.widened import widen
from ea_fairseq.blocks.token_convolution import TokenConvolution
from ea_fairseq.errors import UserError
from ea_fairseq.mechanisms.predictive import ENCODER_DEFAULTS, PredictiveAttention
from ea_fairseq.options import Options

HALF = {"encoder_attention_heads": 4}  # of half the width (PA, section B.1)


@register_mechanism("conv_transformer")
class ConvTransformerAttention(Attention):
    """Plain attention; the encoder's has half of the width, and a convolution over tokens has the rest."""

    title = "attention beside a convolution"
    has_branch = True
    fused = Attention.fused

    @classmethod
    def build_branch(
        cls, options: Options, context: LayerContext, embed_dim: int, num_heads: int
    ) -> TokenConvolution | None:
        """Builds the convolution that is parallel to the encoder's self-attention."""
        return TokenConvolution(embed_dim // 2) if context.kind == "encoder" else None


@register_mechanism("pa_conv_transformer", encoder=ENCODER_DEFAULTS)
class PredictiveConvAttention(ConvTransformerAttention, PredictiveAttention):
    """Predictive attention; the encoder's has half of the width, and a convolution over tokens has the rest."""

    title = "predictive attention beside a convolution"
    fused = PredictiveAttention.fused


class BothReadAll(Attention):
    """Attention and convolution of a classifier, which read all channels and compute half of them each."""

    @classmethod
    def build(cls, options: Options, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any) -> Attention:
        """Builds an attention that does not project its output."""
        attention = super().build(options, context, embed_dim, num_heads, **kwargs)
        widen(attention, 2 * embed_dim, kwargs["q_noise"], kwargs["qn_block_size"])
        attention.out_proj = nn.Identity()
        return attention

    @classmethod
    def build_branch(cls, options: Options, context: LayerContext, embed_dim: int, num_heads: int) -> TokenConvolution:
        """Builds the convolution.

        Raises:
            UserError: if the width is odd.
        """
        if embed_dim % 2:
            raise UserError(f"--encoder-embed-dim must be even, not {embed_dim}: a convolution computes half of it")
        return TokenConvolution(embed_dim // 2, reads=embed_dim)


@register_classifier("conv_transformer", **HALF)
class ConvClassifierAttention(BothReadAll, ConvTransformerAttention):
    """Plain attention and a convolution over tokens, which read all channels and compute half of them each."""

    fused = Attention.fused


@register_classifier("pa_conv_transformer", pa_alpha=0.1, **HALF)
class PredictiveConvClassifierAttention(BothReadAll, PredictiveConvAttention):
    """Predictive attention and a convolution over tokens, which read all channels and compute half of them each."""

    fused = PredictiveAttention.fused
