"""MUDD: Xiao et al., MUDDFormer: Breaking Residual Bottlenecks in Transformers via Multiway Dynamic Dense Connections,
ICML 2025 (arXiv 2502.12170).

Layer l + 1 reads X^c = sum_{i <= l} (b^c_i + (GELU(RMS(X_l) W1) W2)^c_i) X_i for each way c: queries, keys, values and
the residual; X_0 is the embedding, X_i the output of layer i.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.rms_norm import EPSILON
from ea_fairseq.errors import UserError

WAYS = 4


class MultiwayMixture(nn.Module):
    """X^c of m ways after layer l, from the n = l + 1 vectors X_i of a word.

    Parameters are ``first`` (4 n, C), W1; ``second`` (m n, 4 n), W2, zeros at the start; and ``bias`` (m, n), b, one
    for the last vector and zero for the others, as in the model with sums.
    """

    def __init__(self, width: int, vectors: int, ways: int):
        super().__init__()
        self.first = nn.Linear(width, WAYS * vectors, bias=False)
        self.second = nn.Linear(WAYS * vectors, ways * vectors, bias=False)
        nn.init.zeros_(self.second.weight)
        self.bias = nn.Parameter(torch.eye(vectors)[-1].repeat(ways, 1))

    def forward(self, states: list[Tensor]) -> Tensor:
        """n states (T, B, C) -> (m, T, B, C)"""
        x = states[-1]
        hidden = F.gelu(self.first(F.rms_norm(x, x.shape[-1:], eps=EPSILON)))
        weights = self.bias + self.second(hidden).unflatten(-1, self.bias.shape)  # (T, B, m, n)
        return (weights @ torch.stack(states, dim=2)).permute(2, 0, 1, 3)


def separate_inputs(layer: nn.Module) -> None:
    """Prepares a layer's self-attention for queries, keys and values from different vectors.

    Raises:
        UserError: if a convolution reads the same vector for all three, or computes in parallel to self-attention or in
            its place.
    """
    attention = layer.self_attn
    if not isinstance(attention, Attention) or layer.branch is not None:
        raise UserError(
            "--connections mudd does not support convolutions in parallel to self-attention or in its place"
        )
    if attention.convolutions is not None and attention.convolutions.act_on("qkv"):
        raise UserError("--connections mudd gives attentions three inputs, and --conv-projections supports only one")
    attention.fairseq_can_compute = attention.is_plain = False  # fairseq's forward projects all from the query
