"""Mechanisms and terms that nobody has published: what the one forward has room for, each with its oracle."""

import torch
import torch.nn.functional as F
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.attention.term import Term
from ea_fairseq.terms.dot_product import DotProduct
from loops import TERMS, Oracle
from mechanisms import Row


@register_mechanism("shifted")
class ShiftedAttention(Attention):
    """Scores and, shifted by one key, the logits of the layer below."""

    passes_logits = True
    marker = "shifted"

    def combine(self, scores, inputs):
        return scores if inputs.previous is None else scores + F.pad(inputs.previous[..., :-1], (1, 0))


class Shifted(Oracle):
    def logits(self, attention, kind, own, previous, masked):
        if previous is not None:
            own[:, :, 1:] += previous[:, :, :-1]
        return own


class Distance(Term):
    """A learned number for each distance from query to key, of up to 7: a term, shared by heads and layers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(15))

    def forward(self, inputs):
        queries, keys = inputs.positions
        return self.weight[(keys - queries.unsqueeze(1)).clamp(-7, 7) + 7]


@register_mechanism("distant")
class DistantAttention(Attention):
    """Plain attention whose scores have, among the tokens of one sentence, a term that all layers share."""

    @classmethod
    def build(cls, options, context, embed_dim, num_heads, terms=(), **kwargs):
        if context.kind != "cross":
            terms = (*(terms or [DotProduct()]), context.shared.setdefault("distance", Distance()))
        return cls(embed_dim, num_heads, terms=terms, **kwargs)


class KeyTokens(Term):
    """A learned product with the token on the key side, before it is projected."""

    LONGEST = 32  # tokens that a decoding step remembers

    def __init__(self, channels, heads):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, channels))

    def forward(self, inputs):
        tokens = inputs.memory  # (S, B, C)
        if inputs.cache is not None and inputs.cache.has_source:
            tokens = tokens.index_select(1, inputs.cache.beam.sentence)
        elif inputs.cache is not None:
            before = inputs.vectors_before("tokens", inputs.x, self.LONGEST)
            tokens = torch.cat([before, inputs.x])[-inputs.cache.length :]
        return (tokens @ self.weight.T).permute(1, 2, 0).unsqueeze(2)  # (B, K, 1, S)


@register_mechanism("key_reading")
class KeyReadingAttention(Attention):
    """Plain attention with a term that reads the tokens on the key side."""

    @classmethod
    def build(cls, options, context, embed_dim, num_heads, terms=(), **kwargs):
        return cls(embed_dim, num_heads, terms=(*(terms or [DotProduct()]), KeyTokens(embed_dim, num_heads)), **kwargs)


@register_mechanism("narrow")
class NarrowAttention(Attention):
    """Queries and keys have 3 elements a head, values have their share of the channels."""

    ELEMENTS = 3
    marker = "narrow"

    def __init__(self, embed_dim, num_heads, **kwargs):
        super().__init__(embed_dim, num_heads, **kwargs)
        self.scaling, self.is_plain = self.ELEMENTS**-0.5, False
        self.q_proj, self.k_proj = (nn.Linear(reads, self.width("q")) for reads in (embed_dim, self.kdim))

    def width(self, part):
        return super().width(part) if part == "v" else self.ELEMENTS * self.num_heads


TERMS["Distance"] = lambda term, tokens, head, t, s: term.weight[max(-7, min(7, s - t)) + 7]
TERMS["KeyTokens"] = lambda term, tokens, head, t, s: tokens.keys[s] @ term.weight[head]
MADE_UP = {
    "shifted": Row(Shifted()),
    "distant": Row(Oracle()),
    "key_reading": Row(Oracle()),
    "narrow": Row(Oracle()),
}
