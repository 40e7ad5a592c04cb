"""Synthesizer: Tay et al., Synthesizer: Rethinking Self-Attention for Transformer Models, ICML 2021.

The terms of self-attentions are in ``ea_fairseq/terms/synthesizer.py``; ``--synthesizer`` chooses among them.
"""

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import register_mechanism

DEFAULTS = {"synthesizer": "dense"}


@register_mechanism("synthesizer", base=DEFAULTS, lite=DEFAULTS, conv_image={**DEFAULTS, "no_content_scores": False})
class SynthesizerAttention(Attention):
    """Attention with synthesized scores in self-attentions, and dot products in encoder-decoder attention."""

    title = "synthetic attention"
    adds = "maps"
    fused = Attention.fused
