"""Differential attention: Ye et al., Differential Transformer, ICLR 2025 (arXiv 2410.05258, "DIFF"), and its version 2
(microsoft/unilm, Diff-Transformer/Diff-Transformer-V2, 2026).

Version 1 subtracts maps of pairs of heads, whose values are side by side:
O_p = (A_2p - lambda A_2p+1) [v_2p, v_2p+1], output (1 - lambda0_l) RMSNorm(O_p),
lambda = exp(a1 . b1) - exp(a2 . b2) + lambda0_l, lambda0_l = 0.8 - 0.6 exp(-0.3 l) with l from 0.
Version 2 subtracts from each head's map the map of another query on the same keys and values:
O_h = (A_h - sigmoid(lambda_h . x_t) A'_h) v_h. Both in all three attentions.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.by_word import ByWord
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import split_heads
from ea_fairseq.kernels.masks import probabilities
from ea_fairseq.options import Options, option, whole


@dataclass(frozen=True)
class DifferentialOptions(Options):
    """The flag of differential attention."""

    diff_version: int = option(1, whole(1, 2), "1 subtracts maps of pairs of heads, 2 maps of two queries of each head")


class SecondQueries(ByWord):
    """Second queries of the heads, as wide as the attention's own."""

    def read(self, channels: int, width: int = 0) -> None:
        """Rebuilds the weight for words of so many channels, and queries of a total ``width``."""
        self.numbers = width // self.heads or self.numbers
        super().read(channels)


@register_mechanism("diff_transformer")
class DifferentialAttention(Attention):
    """Attention by the difference of two maps.

    Parameters are fairseq's and, in version 1, ``lambda_vectors`` (4, d), a1, b1, a2 and b2, and ``pair_norm`` (2 d), a
    norm's weight, both shared by heads; in version 2 ``second_query`` (K, d, C) and ``gates`` (K, 1, C), no biases.
    """

    options = DifferentialOptions
    title = "differential attention"
    adds = "lambdas, norms and queries"
    fused = Attention.fused
    can_fuse_values = False
    EPSILON = 1e-5

    def __init__(
        self, embed_dim: int, num_heads: int, *args: Any, version: int = 1, layer: int = 0, **kwargs: Any
    ) -> None:
        """Args: layer: its number in the stack, from 0.

        Raises:
            UserError: if version 1 has an odd number of heads or value embeddings of distances, or version 2 no keys.
        """
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.has_pairs, self.layer, self.lambda_0 = version == 1, layer, 0.8 - 0.6 * math.exp(-0.3 * layer)
        if not self.has_pairs:
            if "k" not in self.projected:
                raise UserError("--diff-version 2 needs keys, and these attentions have none")
            self.second_query = SecondQueries(embed_dim, num_heads, self.key_dim)
            self.gates = ByWord(embed_dim, num_heads)
            return
        if num_heads % 2:
            raise UserError(f"--diff-version 1 pairs heads, and {num_heads} is an odd number of them")
        if any(term.has_values for term in self.terms):
            raise UserError("--diff-version 1 pairs values, and --shaw-values adds embeddings to single ones")
        self.lambda_vectors = nn.Parameter(0.1 * torch.randn(4, self.head_dim))
        self.pair_norm = nn.Parameter(torch.ones(2 * self.head_dim))

    @classmethod
    def arguments(cls, options: DifferentialOptions, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "version": options.diff_version, "layer": context.layer}

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether layers keep their index, which determines lambda0."""
        return layers == [*range(len(layers))]

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """The difference of two maps, (B, K / 2, T, S) of pairs or (B, K, T, S)."""
        if self.has_pairs:
            first, second = (self.lambda_vectors[::2] * self.lambda_vectors[1::2]).sum(-1).exp()
            factor = first - second + self.lambda_0
            return weights[:, ::2] - factor.type_as(weights) * weights[:, 1::2]
        # A' of the second queries, normalized and rotated like the first.
        queries = self.second_query.joined(inputs.x)
        if self.query_key is not None:
            queries = self.query_key(queries, {"q": queries.size(-1)}, inputs)
        logits = self.scaling * split_heads(queries, self.num_heads) @ inputs.k.transpose(-1, -2)
        return weights - self.gates(inputs.x).sigmoid() * probabilities(logits, inputs.masks)

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Output of pairs (B, K / 2, T, 2 d), normalized and scaled by depth, or of heads (B, K, T, d)."""
        if not self.has_pairs:
            return super().values(weights, inputs)
        pairs = inputs.v.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3)
        scale = (1 - self.lambda_0) * self.pair_norm
        output = weights @ pairs
        return F.rms_norm(output, scale.shape, scale.type_as(output), self.EPSILON)
