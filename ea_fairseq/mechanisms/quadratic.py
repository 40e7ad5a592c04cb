"""Quadratic attention: Cordonnier et al., On the Relationship between Self-Attention and Convolutional Layers, ICLR
2020 ("CONV-SA").

Self-attentions score by the quadratic term alone (CONV-SA eq. 9): no queries, no keys.
"""

from dataclasses import dataclass

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options, switch

DEFAULTS = {"relative_positions": "quadratic", "no_content_scores": True}
IMAGE_DEFAULTS = {**DEFAULTS, "relative_positions": "quadratic_image"}


@dataclass(frozen=True)
class QuadraticOptions(Options):
    """The flag of quadratic attention."""

    full_width_heads: bool = switch(
        "each head of all attentions has as many channels as a word, instead of its share of them"
    )


@register_mechanism(
    "quadratic_transformer",
    base=DEFAULTS,
    lite=DEFAULTS,
    conv_image={},
    **dict.fromkeys(("vit", "aa_resnet", "conv_transformer_image"), IMAGE_DEFAULTS),
)
class QuadraticAttention(Attention):
    """Attention whose heads look, in self-attentions, at tokens around a learned distance, whatever the tokens are."""

    options = QuadraticOptions
    title = "quadratic attention"
    fused = Attention.fused

    @classmethod
    def width_of_heads(cls, options: QuadraticOptions, embed_dim: int, num_heads: int) -> int:
        """Returns K C if each of the heads has C channels (CONV-SA, section 3: D_h = D_out), else C."""
        return embed_dim * num_heads if options.full_width_heads else embed_dim
