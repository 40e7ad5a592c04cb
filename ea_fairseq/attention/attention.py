"""The one attention: own logits, combined with the layer below, transformed, softmax, values.

Training, decoding steps, recorded passes and the counting of FLOPs all run :meth:`Attention.forward`; a decoding step
differs by its :class:`Inputs`.
"""

from typing import ClassVar

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.cache import DecodingStep, repeat_for_beam
from ea_fairseq.attention.convolutions import Convolutions
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import Mechanism, Place
from ea_fairseq.attention.term import Term
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import attend, heads_of, join_heads, project
from ea_fairseq.kernels.dispatch import spread
from ea_fairseq.kernels.evolve import evolve, takes_maps
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks, probabilities
from ea_fairseq.options import Options
from ea_fairseq.terms.dot_product import DotProduct


class Sentences(Inputs):
    """The inputs of whole sentences.

    Args:
        query: (T, B, C); key, value: (S, B, C), not yet projected.
        masks, previous: see ``Inputs``; before :meth:`prepare` they may have one row or column for all.
    """

    def __init__(
        self,
        attention: "Attention",
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: AttentionMasks,
        previous: Tensor | None,
    ):
        self.x, self.scale, self.masks, self.projected = query, attention.scaling, masks, attention.projected
        self.take(attention, previous)
        if query is key and key is value:
            self.query, self.memory = attention.project(query, "qkv", self), None  # (T, B, 3 C)
        else:
            self.query = attention.project(query, "q", self)  # (T, B, C)
            if key is value:
                self.memory = attention.project(key, "kv", self)  # (S, B, 2 C)
            else:
                self.memory = torch.cat((attention.project(key, "k", self), attention.project(value, "v", self)), -1)
        sentences = key.size(1) if query.size(1) == 1 else query.size(1)  # one sentence serves all
        self.size = sentences, attention.num_heads, query.size(0), key.size(0)

    def linear(self, x: Tensor, parts: str, attention: "Attention") -> Tensor | None:
        layers = attention.projections(parts)
        return project(x, *layers.values()) if layers else None

    def prepare(self) -> None:
        sentences, heads, queries, keys = self.size
        self.q, self.k, self.v = heads_of(self.projected, self.query, self.memory, heads)
        self.masks = self.masks.of_size(sentences, queries, keys)
        self.previous = spread("previous_logits", self.previous, *self.size)

    @property
    def positions(self) -> tuple[Tensor, Tensor]:
        *_, queries, keys = self.size
        return torch.arange(queries, device=self.x.device), torch.arange(keys, device=self.x.device)

    def rows_before(self, name: str, rows: Tensor, count: int) -> None:
        return None

    def vectors_before(self, name: str, x: Tensor, count: int) -> None:
        return None

    def attend(self, fused: FusedLogits, need_weights: bool) -> tuple[Tensor, None, Tensor] | None:
        if need_weights:
            return None
        found = attend(self.query, self.memory, self.size[1], self.scale, fused, self.previous, self.masks)
        return found and (found[0], None, found[1])

    def evolve(self, fused: FusedLogits, exact: bool, scores) -> tuple[Tensor, Tensor] | None:
        if not takes_maps(self.size, self.v, self.masks, exact):
            return None
        own, scale = scores(self)
        return evolve(own, scale, fused, self.previous, self.masks, exact)


class Attention(Mechanism, MultiheadAttention):
    """fairseq's multi-head attention with its steps open to a mechanism.

    As it is, this is plain attention, and computed by fairseq's own forward unless its maps are recorded.
    """

    fused = FusedLogits()
    # Functions that kernels stand for.
    fused_steps: ClassVar[tuple[str, ...]] = ("forward", "own_logits", "combine", "transform")

    def __init_subclass__(cls, **kwargs):
        """A class that changes one of these functions has no ``fused``, unless it states anew what kernels compute."""
        super().__init_subclass__(**kwargs)
        latest = next(kind for kind in cls.__mro__ if {"fused", *cls.fused_steps} & vars(kind).keys())
        if "fused" not in vars(latest):
            cls.fused = None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        terms: tuple[Term, ...] = (),
        convolutions: Convolutions | None = None,
        **kwargs,
    ):
        """
        Args:
            terms: whose sum own logits are; the dot product by default.
            convolutions: of words and values, in self-attention.
            kwargs: those of fairseq's ``MultiheadAttention``.

        Raises:
            UserError: where no term reads what a convolution is for.
        """
        super().__init__(embed_dim, num_heads, **kwargs)
        kind = type(self)
        self.terms = nn.ModuleList(terms or [DotProduct()])
        self.convolutions = convolutions
        self.scores_dots = not terms  # own logits are the dot product alone
        self.is_bare = self.scores_dots and convolutions is None  # flags add nothing to what the mechanism is
        self.fuses_values = self.scores_dots and (kind.reweigh, kind.values) == (Mechanism.reweigh, Mechanism.values)
        self.fuses_values &= convolutions is None or "depthwise" not in convolutions
        self.is_plain = kind is Attention and self.is_bare  # fairseq's own forward computes the same
        self.projected = "".join(
            part for part in "qkv" if part == "v" or any(part in term.needs for term in self.terms)
        )
        for part in (part for part in "qk" if part not in self.projected):
            if convolutions is not None and part in convolutions:
                raise UserError(f"--conv-projections must not have {part}, which these attentions do not read")
            setattr(self, f"{part}_proj", None)
        self.recorded: dict[str, Tensor | None] | None = None  # see ea_fairseq.attention.recording
        if self.marker:
            self.register_buffer(self.marker, torch.empty(0))

    @classmethod
    def build(cls, options: Options, place: Place, embed_dim: int, num_heads: int, **kwargs) -> "Attention":
        """The attention of a place in a stack, from the mechanism's options."""
        return cls(embed_dim, num_heads, **kwargs)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        query_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
        previous: Tensor | None = None,
        masks: AttentionMasks | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Attends, and returns what the next layer's attention takes as ``previous``.

        Args:
            query: (T, B, C); key, value: (S, B, C).
            key_padding_mask: (B, S), true where a key is padding.
            query_padding_mask: (B, T), true where a query is padding; the mechanism reads such rows as zeros.
            incremental_state: with it, ``query`` is one step and earlier steps are remembered.
            need_weights, need_head_weights: return the probabilities (B, T, S), or by head (K, B, T, S).
            static_kv: keys and values do not change between steps.
            attn_mask: (T, S), true where a query must not see a key; or what is added to its logits, -1e4 or less
                there. The mechanism and the next layer read a zero where a key is masked, and no other number of
                the mask. Where the attention is plain it is fairseq's.
            previous: what the attention of the layer below handed on: logits (B, K, T, S), or values (S, B, C).
            masks: instead of ``key_padding_mask``, ``query_padding_mask`` and ``attn_mask``.

        Returns:
            Output (T, B, C), probabilities or None, and what the layer above may take, or None.

        Raises:
            ValueError, TypeError, RuntimeError: where a tensor is of another size or type. Masks and previous logits
                may have one row or column for all.
        """
        if self.is_plain and self.recorded is None:
            if masks is not None:
                key_padding_mask, attn_mask = masks.padded_keys, masks.attn_mask(query.dtype)
            elif attn_mask is not None and attn_mask.dtype is torch.bool:  # fairseq's decoding steps would add ones
                attn_mask = AttentionMasks(future=attn_mask).attn_mask(query.dtype)
            if static_kv and not self._get_input_buffer(incremental_state):
                key, value, key_padding_mask = repeat_for_beam(incremental_state, key, value, key_padding_mask)
            memory = key, value, key_padding_mask, incremental_state, need_weights, static_kv, attn_mask
            return *super().forward(query, *memory, need_head_weights=need_head_weights), None
        if masks is None:
            masks = AttentionMasks.of(key_padding_mask, query_padding_mask, attn_mask)
        if incremental_state is None:
            inputs = Sentences(self, query, key, value, masks, previous)
        else:
            inputs = DecodingStep(self, query, key, value, masks, previous, incremental_state)
        output, weights, logits = self.attend(inputs, need_weights or need_head_weights)
        output, handed_on = self.out_proj(output), inputs.first_values if self.hands_on_values else logits
        if need_head_weights:
            return output, weights.transpose(0, 1), handed_on
        return output, weights.mean(dim=1) if need_weights else None, handed_on

    def project(self, x: Tensor, parts: str, inputs: Inputs) -> Tensor | None:
        """Queries, keys and values of tokens, or some of these, side by side, without those that no term reads.

        Args:
            x: (T, B, C); parts: letters of "qkv", in this order.

        Returns:
            (T, B, n C) of n parts, None without any.
        """
        if self.convolutions is not None and self.convolutions.act_on(parts):
            return self.convolutions.project(x, self.projections(parts), inputs)
        return inputs.linear(x, parts, self)

    def projections(self, parts: str) -> dict[str, nn.Module]:
        """Those of some of queries, keys and values that a term reads, by the letters q, k and v."""
        return {part: getattr(self, f"{part}_proj") for part in parts if part in self.projected}

    def attend(self, inputs: Inputs, need_weights: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Output (T, B, C) before its projection, probabilities if they are needed, and logits (B, K, T, S)."""
        fused = self.fused if self.recorded is None else None
        if inputs.previous is not None:
            inputs.previous = self.receive(inputs.previous, inputs)
        if fused is not None and self.fuses_values and not self.drops_out:
            found = inputs.attend(fused, need_weights)
            if found is not None:
                return found
        inputs.prepare()
        found = None if fused is None else inputs.evolve(fused, need_weights, self.scores)
        if found is not None:
            logits, weights = found
        else:
            own = self.own_logits(inputs)
            combined = self.combine(own, inputs)
            logits = self.transform(combined, inputs)
            weights = probabilities(logits, inputs.masks)
            if self.recorded is not None:
                self.recorded.update(own=own, input=combined, logits=logits, probabilities=weights)
                self.recorded["masked"] = inputs.masks.masked
            if self.hands_on_logits:
                logits = inputs.masks.cleared(logits)
        weights = self.reweigh(weights, inputs)
        kept = self.dropout_module(weights.type_as(inputs.v))
        added = (term.values(kept, inputs) for term in self.terms if term.has_values)
        output = join_heads(sum(added, self.values(kept, inputs)))
        if self.convolutions is not None and "depthwise" in self.convolutions:
            output = output + self.convolutions.of_values(inputs)
        return output, weights, logits

    def own_logits(self, inputs: Inputs) -> Tensor:
        """The sum of the terms, (B, K, T, S)."""
        first, *others = (term(inputs) for term in self.terms)
        return sum(others, first).expand(inputs.size)

    def scores(self, inputs: Inputs) -> tuple[Tensor, float]:
        """Own logits (B, K, T, S), and the number that kernels still have to scale them by."""
        if self.scores_dots:
            return inputs.q @ inputs.k.transpose(-1, -2), inputs.scale
        return self.own_logits(inputs), 1.0

    @property
    def drops_out(self) -> bool:
        """Whether probabilities are dropped out."""
        dropout = self.dropout_module
        return dropout.p > 0 and (dropout.training or dropout.apply_during_inference)

    def reorder_incremental_state(self, incremental_state: dict | None, new_order: Tensor):
        """Lets the KV cache follow beam search where no decoder does; ``new_order`` (B,) are rows of before."""
        cache = self.get_incremental_state(incremental_state, "cache")
        if cache is not None and cache.owns_beam:
            cache.beam.reorder(new_order)
        return super().reorder_incremental_state(incremental_state, new_order)
