"""What the attentions of a Transformer cost, by formula."""

from dataclasses import dataclass, replace

from fairseq.modules import MultiheadAttention
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.term import Term
from ea_fairseq.count import Count, linear

SIZES = 4  # products of sizes in fairseq's own attention, which torchprofile counts with those of tensors


@dataclass(frozen=True)
class AttentionCost:
    """What the attentions of one kind cost: encoder or decoder self-attention, or encoder-decoder attention.

    Args:
        width: of the layers that give queries, and of the output; key_width: of those that give keys and values.
        heads: K of each attention; width_of_heads: K d numbers that they have of each word.
        queries, keys: words T and S.
        attentions: one of each layer; None for fairseq's own.
        cross: whether keys come from the encoder.
    """

    width: int
    key_width: int
    heads: int
    width_of_heads: int
    queries: int
    keys: int
    attentions: tuple[Attention | None, ...]
    cross: bool = False

    @classmethod
    def of(cls, attentions: list[MultiheadAttention], queries: int, keys: int) -> "AttentionCost":
        """That of a built model's attentions of one kind."""
        if not attentions:
            return cls(0, 0, 0, 0, queries, keys, ())
        first = attentions[0]
        ours = (attention if is_ours(attention) else None for attention in attentions)
        cross = not first.self_attention
        of_heads = first.num_heads, first.num_heads * first.head_dim
        return cls(first.embed_dim, first.kdim, *of_heads, queries, keys, tuple(ours), cross)

    def of_length(self, words: int) -> "AttentionCost":
        """The same for as many queries and keys."""
        return replace(self, queries=words, keys=words)

    @property
    def plain(self) -> "AttentionCost":
        """The same in fairseq's Transformer."""
        return replace(self, width_of_heads=self.width, attentions=(None,) * self.layers)

    @property
    def layers(self) -> int:
        """Number of attentions, one a layer."""
        return len(self.attentions)

    @property
    def ours(self) -> list[Attention]:
        """The attentions that our forward computes."""
        return [attention for attention in self.attentions if attention is not None]

    @property
    def entries(self) -> int:
        """Entries K x T x S of one attention's map."""
        return self.heads * self.queries * self.keys

    @property
    def projections(self) -> Count:
        """Of queries, keys, values and output."""
        inner = self.width_of_heads
        output, keys = linear(inner, self.width, self.queries), linear(self.key_width, inner, self.keys)
        queries = linear(self.width if self.cross else self.key_width, inner, self.queries)
        missing = {part: sum(part not in attention.projected for attention in self.ours) for part in "qk"}
        projecting = self.layers - sum(isinstance(attention.out_proj, nn.Identity) for attention in self.ours)
        return output * projecting + queries * (self.layers - missing["q"]) + keys * (2 * self.layers - missing["k"])

    @property
    def maps(self) -> Count:
        """Own logits, such as Q K^T, and the product A V."""
        product = Count(macs=self.queries * self.keys * self.width_of_heads)
        terms = sum((cost.macs for _, cost in self.terms), 0)
        return product * (self.layers + self.attentions.count(None)) + Count(macs=terms)

    @property
    def terms(self) -> list[tuple[Term, Count]]:
        """The terms of own logits, each as often as layers share it, and what each costs in one attention."""
        terms = [term for attention in self.ours for term in attention.terms]
        return [(term, term.cost(self.queries, self.keys, self.width_of_heads)) for term in terms]

    @property
    def of_terms(self) -> Count:
        """The parameters of the terms, once of those that layers share."""
        return Count(sum({term: cost.parameters for term, cost in self.terms}.values()))

    @property
    def convolutions(self) -> Count:
        """The convolutions of words and values."""
        built = [attention.convolutions for attention in self.ours if attention.convolutions is not None]
        return sum((conv.cost(self.keys) for convolutions in built for conv in convolutions.values()), Count())

    @property
    def extra(self) -> Count:
        """What the mechanism adds."""
        return sum((attention.extra_cost(self.queries, self.keys) for attention in self.ours), Count())

    @property
    def element_wise(self) -> Count:
        """Such as the scaling of queries, which fairseq's self-attention leaves to one operation with the products."""
        scaled = Count(macs=self.queries * self.width_of_heads)
        fairseqs = self.attentions.count(None)
        ours = sum(term.element_wise(self.queries, self.keys, self.width_of_heads) for term, _ in self.terms)
        ours += sum(attention.element_wise(self.queries, self.keys) for attention in self.ours)
        return scaled * fairseqs * self.cross + Count(macs=SIZES * fairseqs + ours)

    def kept_for_backward(self, half: bool = False) -> int:
        """Bytes of maps that autograd keeps of all layers in plain PyTorch, without dropout of probabilities.

        Kept are the probabilities, by an attention that computes them step by step, as ours does, and what the
        mechanism and the terms keep; torch has one fused operation for fairseq's self-attention, which keeps none.

        Args:
            half: in half precision the softmax is of fp32, and its output is kept in both precisions.
        """
        number = 2 if half else 4
        maps = self.layers if self.cross else len(self.ours)
        extra = sum(attention.extra_kept(self.queries, self.keys, number) for attention in self.ours)
        of_terms = sum(term.kept(self.queries, self.keys, self.width_of_heads) for term, _ in self.terms) * number
        return maps * self.entries * (number + 4 * half) + extra + of_terms


def is_ours(attention: MultiheadAttention) -> bool:
    """Whether the attention runs our forward, and not fairseq's."""
    return isinstance(attention, Attention) and not attention.is_plain
