"""Quadratic attention: Cordonnier et al., On the Relationship between Self-Attention and Convolutional Layers, ICLR
2020 ("CONV-SA").

Self-attentions score by the quadratic term of own logits alone (CONV-SA eq. 9): no queries, no keys.
"""

from ea_fairseq.attention.attention import Attention
from ea_fairseq.models.transformer import register_mechanism

DEFAULTS = {"relative_positions": "quadratic", "no_content_scores": True}


@register_mechanism("quadratic_transformer", base=DEFAULTS, lite=DEFAULTS)
class QuadraticAttention(Attention):
    """Attention whose heads look, in self-attentions, at words around a learned distance, whatever the words are."""

    title = "quadratic attention"
