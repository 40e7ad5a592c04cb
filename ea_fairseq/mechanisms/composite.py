"""Composite attention: Chang et al., Convolutions and Self-Attention, ACL 2021 ("COMP").

Lightweight convolutions are terms of the scores (COMP eq. 6), which ``--lightweight-conv`` chooses.
"""

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import register_mechanism

DEFAULTS = {"lightweight_conv": "composite"}
ALONE = {**DEFAULTS, "relative_positions": "none"}  # for models that have other positions by default


@register_mechanism(
    "composite_transformer",
    base=DEFAULTS,
    lite=DEFAULTS,
    encoder={**DEFAULTS, "segments": 2},
    aa_resnet=ALONE,
    conv_image=ALONE,
)
class CompositeAttention(Attention):
    """Attention to whose scores self-attentions add lightweight convolutions."""

    title = "composite attention"
    fused = Attention.fused
