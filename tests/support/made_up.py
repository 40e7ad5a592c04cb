"""Mechanisms and terms that nobody has published: what the one forward has room for, each with its oracle."""

import torch
import torch.nn.functional as F
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.attention.term import Term
from ea_fairseq.terms.dot_product import DotProduct
from laws import HEADS_OF_MECHANISMS
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


@register_mechanism("relayed")
class RelayedAttention(Attention):
    """Logits and values, both added to those of the layer below: two things are passed on together."""

    passes_logits = passes_values = True
    marker = "relayed"

    def project(self, x, parts, inputs):
        projected = super().project(x, parts, inputs)
        if "v" not in parts:
            return projected
        others, values = projected.split([projected.size(-1) - self.embed_dim, self.embed_dim], dim=-1)
        if inputs.first_values is not None:
            values = values + inputs.first_values
        inputs.first_values = values
        return torch.cat([others, values], dim=-1)

    def combine(self, scores, inputs):
        return scores if inputs.previous is None else scores + inputs.previous


class Relayed(Oracle):
    def project(self, attention, part, x, tokens):
        projected = super().project(attention, part, x, tokens)
        return projected if part != "v" or tokens.previous is None else projected + tokens.previous[1]

    def logits(self, attention, kind, own, previous, masked):
        return own if previous is None else own + previous[0]

    def hands_on(self, logits, tokens):
        return logits, tokens.projected["v"]


@register_mechanism("sinking")
class SinkingAttention(Attention):
    """A learned logit of each head, of no key, takes a part of the probabilities: a softmax that is a class's own."""

    def __init__(self, embed_dim, num_heads, **kwargs):
        super().__init__(embed_dim, num_heads, **kwargs)
        self.sink = nn.Parameter(torch.randn(num_heads))
        self.is_plain = False

    def normalize(self, logits, inputs):
        of_keys = super().normalize(logits, inputs)
        seen = logits if inputs.masks.masked is None else logits.masked_fill(inputs.masks.masked, -torch.inf)
        return of_keys * (seen.logsumexp(-1, keepdim=True) - self.sink[:, None, None]).sigmoid()


class Sinking(Oracle):
    def logits(self, attention, kind, own, previous, masked):
        seen = own.exp().masked_fill(masked, 0.0).sum(-1, keepdim=True)
        self.part = seen / (seen + attention.sink.exp()[:, None, None])
        return own

    def weights(self, attention, kind, weights, masked):
        return weights * self.part


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
HEADS_OF_MECHANISMS["sink", ""] = (0,)
MADE_UP = {
    "shifted": Row(Shifted()),
    "distant": Row(Oracle()),
    "relayed": Row(Relayed()),
    "sinking": Row(Sinking()),
    "key_reading": Row(Oracle()),
    "narrow": Row(Oracle()),
}
