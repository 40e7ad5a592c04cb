"""RealFormer: He et al., RealFormer: Transformer Likes Residual Attention, Findings of ACL 2021.

logits_i = logits_{i-1} + scores_i, in all three attentions, without a convolution.
"""

from torch import Tensor

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.options import Options


@register_mechanism("realformer")
class RealFormerAttention(Attention):
    """Attention whose logits are its scores added to the logits of the layer below."""

    title = "residual attention"
    marker = "residual"
    passes_logits = True
    fused = FusedLogits(own_weight=1.0, previous_weight=1.0)

    @classmethod
    def is_entrywise(cls, options: Options) -> bool:
        """Returns True: it only adds maps."""
        return True

    def combine(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """The residual connection of logits, (B, K, T, S)."""
        return scores if inputs.previous is None else scores + inputs.previous
