"""Conv-Transformer and PA-Conv-Transformer: Predictive Attention Transformer, submitted to ICLR 2021 ("PA").

In the encoder, self-attention takes one half of the channels and a convolution over words the other; what both give is
concatenated (section 4.1.1, B.1, figure 4). In PA-Conv-Transformer that self-attention is predictive. The decoder is
fairseq's, because PA applies its parts to the encoder alone.
"""

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import Place
from ea_fairseq.blocks.token_convolution import TokenConvolution
from ea_fairseq.mechanisms.predictive import ENCODER_DEFAULTS, PredictiveAttention
from ea_fairseq.models.transformer import register_mechanism
from ea_fairseq.options import Options

HALF = {"encoder_attention_heads": 4}  # of half the width (PA, section B.1)


@register_mechanism("conv_transformer", classifier=HALF)
class ConvTransformerAttention(Attention):
    """Plain attention; the encoder's has half of the width, and a convolution over words has the rest."""

    title = "attention beside a convolution"

    @classmethod
    def build_branch(cls, options: Options, place: Place, embed_dim: int, num_heads: int) -> TokenConvolution | None:
        """The convolution beside the encoder's self-attention."""
        return TokenConvolution(embed_dim // 2) if place.kind == "encoder" else None


@register_mechanism("pa_conv_transformer", encoder=ENCODER_DEFAULTS, classifier={"pa_alpha": 0.1, **HALF})
class PredictiveConvAttention(ConvTransformerAttention, PredictiveAttention):
    """Predictive attention; the encoder's has half of the width, and a convolution over words has the rest."""

    title = "predictive attention beside a convolution"
    adds_macs_of = None  # the branch convolves, too
