"""Dynamically composable attention: Xiao et al., Improving Transformers with Dynamically Composable Multi-Head
Attention, ICML 2024 (arXiv 2405.08553, "DCMHA").

Talking heads whose matrices depend on words, before the softmax and after it, in all three attentions:
M_tj <- M_tj + (w2_t^T w1_t + diag(tanh(D x_t))) M_tj, heads as a vector, of the query's word t, and likewise of the
key's word j; w1_t and w2_t (R, K) are the halves of GELU(x_t W1) W2, w1 divided by its root mean square over heads.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.options import Options, switch


@dataclass(frozen=True)
class ComposableOptions(Options):
    """The flag of dynamically composable attention."""

    compose_by_key: bool = switch("heads are composed by the key's word, too, not only by the query's")


class Composition(nn.Module):
    """The matrix by which a word mixes heads, without the identity: (T, B, C) -> (T, B, K K).

    Parameters are ``hidden`` (4 K, C), W1; ``mixing`` (4 K, 2, R, K), W2; and ``scales`` (K, C), D.
    """

    RANK = 2  # R
    EPSILON = 1e-6

    def __init__(self, channels: int, heads: int, reads_keys: bool = False):
        super().__init__()
        self.heads, self.reads_keys = heads, reads_keys
        self.mixing = nn.Parameter(torch.empty(4 * heads, 2, self.RANK, heads))
        nn.init.normal_(self.mixing, std=0.02 / ((2 * heads * self.RANK) ** 0.5 * (heads + self.RANK)))
        self.read(channels)

    def read(self, channels: int, width: int = 0) -> None:
        """Rebuilds W1 and D for words of so many channels."""
        heads = self.heads
        self.hidden = nn.Parameter(torch.randn(4 * heads, channels) * (2 / (channels + 4 * heads)) ** 0.5)
        self.scales = nn.Parameter(torch.randn(heads, channels) * 0.05 * (2 / (channels + heads)) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, C) -> (T, B, K K)"""
        # The halves of GELU(x W1) W2, (T, B, R, K).
        both = F.gelu(F.linear(x, self.hidden)) @ self.mixing.flatten(1)
        first, second = both.unflatten(-1, self.mixing.shape[1:]).unbind(-3)
        # w2^T w1 + diag(tanh(D x)).
        first = F.rms_norm(first, first.shape[-1:], eps=self.EPSILON)
        diagonal = F.linear(x, self.scales).tanh()
        return (second.transpose(-1, -2) @ first + diagonal.diag_embed()).flatten(-2)


@register_mechanism("composable_attention")
class ComposableAttention(Attention):
    """Attention whose heads are mixed by matrices of the query's word and, if asked to, of the key's.

    Parameters are fairseq's plus a :class:`Composition` before the softmax and one after it, for queries and for keys.
    """

    options = ComposableOptions
    title = "composable attention"
    adds = "compositions"

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, by_key: bool = False, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.query_logits, self.query_weights = (Composition(embed_dim, num_heads) for _ in range(2))
        self.key_logits, self.key_weights = (
            Composition(self.kdim, num_heads, reads_keys=True) if by_key else None for _ in range(2)
        )

    @classmethod
    def arguments(cls, options: ComposableOptions, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "by_key": options.compose_by_key}

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Logits (B, K, T, S), composed before the softmax."""
        return self.compose("logits", logits, inputs)

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Probabilities (B, K, T, S), composed after the softmax."""
        return self.compose("weights", weights, inputs)

    def compose(self, name: str, maps: Tensor, inputs: Inputs) -> Tensor:
        """Adds to maps (B, K, T, S) their products with the matrices of words."""
        by_query, by_key = (getattr(self, f"{side}_{name}") for side in ("query", "key"))
        matrices = by_query(inputs.x).unflatten(-1, (self.num_heads, -1)).transpose(0, 1).type_as(maps)
        composed = maps + (matrices @ maps.transpose(1, 2)).transpose(1, 2)
        if by_key is None:
            return composed
        matrices = inputs.of_keys(name, by_key).unflatten(-1, (self.num_heads, -1)).transpose(0, 1).type_as(maps)
        return composed + (matrices @ maps.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    @torch.no_grad()
    def start_from_plain(self, options: ComposableOptions) -> str:
        """Initializes as the identity: the second halves of W2 and D are zero."""
        for part in (module for module in self.modules() if isinstance(module, Composition)):
            part.mixing[:, 1] = 0.0
            part.scales.zero_()
        return "as the identity"
