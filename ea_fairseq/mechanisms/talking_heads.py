"""Talking heads: Shazeer et al., Talking-Heads Attention, 2020 (arXiv 2003.02436).

logits'_h = sum_g P[h, g] scores_g and A_h = sum_g W[h, g] softmax(mask(logits'))_g, in all three attentions.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options


@register_mechanism("talking_heads")
class TalkingHeadsAttention(Attention):
    """Attention whose heads are mixed before the softmax and after it; dropout acts on mixed probabilities.

    Parameters are fairseq's plus ``mix_logits`` and ``mix_weights`` (K, K), P and W of the paper, without a bias. Both
    start at random, as dense layers of the paper's authors do (Glorot & Bengio, 2010).
    """

    title = "talking heads"
    adds = "projections"

    def __init__(self, embed_dim: int, num_heads: int, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)
        self.mix_logits, self.mix_weights = (nn.Parameter(torch.empty(num_heads, num_heads)) for _ in range(2))
        for mixing in (self.mix_logits, self.mix_weights):
            nn.init.xavier_uniform_(mixing)

    @classmethod
    def is_entrywise(cls, options: Options) -> bool:
        """Returns True: it only mixes heads."""
        return True

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """The projection P of logits (B, K, T, S)."""
        return mix_heads(self.mix_logits, logits)

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """The projection W of probabilities (B, K, T, S)."""
        return mix_heads(self.mix_weights, weights)

    @torch.no_grad()
    def start_from_plain(self, options: Options) -> str:
        """Initializes both as the identity, which changes nothing."""
        for mixing in (self.mix_logits, self.mix_weights):
            mixing.copy_(torch.eye(self.num_heads))
        return "as the identity"


def mix_heads(mixing: Tensor, maps: Tensor) -> Tensor:
    """Sums ``mixing[h, g] * maps[:, g]`` over the heads g, (B, K, T, S); each group of heads may have its own matrix.

    It is one matrix product per sentence: on a CPU, a 1 x 1 convolution takes three times as long.

    Args:
        mixing: (K, K), or (groups, heads of a group, heads of a group).
    """
    heads = mixing.size(-1)
    mixing = mixing.type_as(maps).view(-1, heads, heads).expand(len(maps), -1, -1, -1).flatten(0, 1)
    return torch.bmm(mixing, maps.reshape(len(mixing), heads, -1)).view(maps.shape)
