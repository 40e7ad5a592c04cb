"""The one attention: scores, combined with the layer below, transformed, softmax, values.

Training, decoding steps, recorded passes and the counting of FLOPs all run :meth:`Attention.attend`; a decoding step
only adds a cache.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.cache import AttentionCache, repeat_for_beam, step_by_kernel
from ea_fairseq.attention.convolutions import Convolutions
from ea_fairseq.attention.inputs import NOTHING, Inputs, Passed
from ea_fairseq.attention.mechanism import Grid, LayerContext, Mechanism
from ea_fairseq.attention.projection import project
from ea_fairseq.attention.query_key import QueryKey
from ea_fairseq.attention.term import Term
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import attend, join_heads
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.evolve import evolve, takes_maps
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.terms.dot_product import DotProduct

# Former names, which classes of a user-dir may still use.
RENAMED = {"hands_on_logits": "passes_logits", "hands_on_values": "passes_values", "own_logits": "scores"}


class Attention(Mechanism, MultiheadAttention):
    """fairseq's multi-head attention, with steps that a mechanism can override.

    This class itself is plain attention, computed by fairseq's own forward unless its maps are recorded, it is trained
    in bfloat16 on a CPU, or flags change its terms, scale, inputs, widths or biases (``is_plain``).
    """

    fused: FusedLogits | None = FusedLogits()
    terms: Sequence[Term]
    grid: Grid | None = None  # if tokens are pixels
    of_source: ClassVar[type["Attention"] | None] = None  # the class of encoder-decoder attention, if another

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Leaves a subclass to PyTorch unless its own body says what kernels may compute."""
        super().__init_subclass__(**kwargs)
        if "fused" not in vars(cls):
            cls.fused = None
        for old in RENAMED.keys() & vars(cls).keys():
            setattr(cls, RENAMED[old], vars(cls)[old])

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        terms: tuple[Term, ...] = (),
        convolutions: Convolutions | None = None,
        query_key: QueryKey | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            terms: summed to give the scores; the dot product by default.
            convolutions: of tokens and values, in self-attention.
            query_key: normalizes and rotates queries and keys.
            kwargs: passed to fairseq's ``MultiheadAttention``.

        Raises:
            UserError: if a convolution acts on queries or keys that no term reads.
        """
        super().__init__(embed_dim, num_heads, **kwargs)
        self.terms = nn.ModuleList(terms or [DotProduct()])  # type: ignore[assignment]
        self.key_dim = self.head_dim  # size of one head's query or key; ``head_dim`` is the size of its value
        self.convolutions = convolutions
        self.convolves_values = convolutions is not None and "depthwise" in convolutions
        self.query_key = query_key
        self.dot_product_only = not terms
        has_parts = bool(terms) or convolutions is not None or query_key is not None
        # Whether fairseq's own forward, which needs biases, computes the same if the mechanism is off; and as it is.
        self.fairseq_can_compute = not has_parts and self.q_proj.bias is not None
        self.is_plain = type(self) is Attention and self.fairseq_can_compute
        self.projected = "".join(
            part for part in "qkv" if part == "v" or any(part in term.needs for term in self.terms)
        )
        for part in (part for part in "qk" if part not in self.projected):
            if convolutions is not None and part in convolutions:
                raise UserError(f"--conv-projections must not have {part}, which these attentions do not read")
            setattr(self, f"{part}_proj", None)
        if query_key is not None:
            query_key.keep_only(self.projected)
        self.recorded: dict[str, Tensor | None] | None = None  # see ea_fairseq.attention.recording
        if self.marker:
            self.register_buffer(self.marker, torch.empty(0))

    @classmethod
    def build(cls, options: Any, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any) -> "Attention":
        """Builds the attention of a layer from the mechanism's options; ``kwargs`` are those of the constructor."""
        if context.kind == "cross" and cls.of_source is not None:
            return cls.of_source.build(options, context, embed_dim, num_heads, **kwargs)
        return cls(embed_dim, num_heads, **cls.arguments(options, context), **kwargs)

    @classmethod
    def arguments(cls, options: Any, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that the mechanism's options and the layer decide."""
        return {}

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        query_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
        previous: Passed | Tensor | None = None,
        masks: AttentionMasks | None = None,
    ) -> tuple[Tensor, Tensor | None, Passed]:
        """Calls :meth:`attend` with fairseq's signature.

        Args:
            query: (T, B, C); key, value: (S, B, C).
            key_padding_mask: (B, S), true where a key is padding.
            query_padding_mask: (B, T), true where a query is padding; the mechanism reads such rows as zeros.
            incremental_state: with it, ``query`` is one step and earlier steps are remembered.
            need_weights, need_head_weights: return the probabilities (B, T, S), or by head (K, B, T, S).
            static_kv: keys and values do not change between steps.
            attn_mask: (T, S), true where a query must not see a key; or numbers added to the logits, -1e4 or less
                there. The mechanism and the next layer read zeros at masked keys and ignore the mask's other
                elements. Plain attention treats the mask as fairseq does.
            previous: what the attention of the layer below passed on; a tensor is taken as its logits.
            masks: instead of ``key_padding_mask``, ``query_padding_mask`` and ``attn_mask``.

        Returns:
            Output (T, B, C), probabilities or None, and what the layer above takes as ``previous``.

        Raises:
            ValueError, TypeError, RuntimeError: if a tensor has a wrong size or type. Masks and previous logits may
                have a single row or column, which is broadcast.
        """
        if self.is_plain and self.recorded is None and not self.trains_in_bfloat16(query):
            if masks is not None:
                key_padding_mask, attn_mask = masks.padded_keys, masks.attn_mask(query.dtype)
            elif attn_mask is not None and attn_mask.dtype is torch.bool:  # fairseq's decoding steps would add ones
                attn_mask = AttentionMasks(future=attn_mask).attn_mask(query.dtype)
            if static_kv and not self._get_input_buffer(incremental_state):
                key, value, key_padding_mask = repeat_for_beam(incremental_state, key, value, key_padding_mask)
            memory = key, value, key_padding_mask, incremental_state, need_weights, static_kv, attn_mask
            return *super().forward(query, *memory, need_head_weights=need_head_weights), NOTHING
        if not isinstance(previous, Passed):
            previous = Passed(previous)
        if masks is None:
            masks = AttentionMasks.of(key_padding_mask, query_padding_mask, attn_mask)
        cache = None
        if incremental_state is not None:
            cache = AttentionCache.at_step(self, incremental_state, query, masks.padded_keys)
        output, weights, passed = self.attend(
            query, key, value, masks, previous, cache, need_weights or need_head_weights
        )
        if weights is None or not (need_weights or need_head_weights):
            return output, None, passed
        return output, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1), passed

    def trains_in_bfloat16(self, query: Tensor) -> bool:
        """Whether this is training in bfloat16 on a CPU, where our kernel is twice as fast as fairseq's attention."""
        return self.training and query.is_cpu and torch.is_autocast_enabled("cpu") and is_native(query)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: AttentionMasks,
        previous: Passed = NOTHING,
        cache: AttentionCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Passed]:
        """Attends, step by step.

        Args:
            query: (T, B, C); with a cache, T is 1.
            key, value: (S, B, C); with a cache, source tokens have one row for each sentence.

        Returns:
            Output (T, B, C), probabilities (B, K, T, S) or None if a kernel did not need to write them, and what the
            next layer reads.
        """
        # Take what the layer below passed on.
        inputs = Inputs(query, key, masks, self.num_heads, self.scaling, cache)
        if self.passes_values:
            inputs.first_values = previous.values
        if self.passes_logits and previous.logits is not None:
            inputs.previous = self.receive(previous.logits, inputs)

        # Project tokens to queries, keys and values, side by side.
        projected = self.project_all(query, key, value, inputs)

        # Let one kernel compute the rest up to the output projection, if it supports this class and these tensors.
        fused = self.fused_of(inputs) if self.recorded is None else None
        found = None if fused is None else self.attend_by_kernel(fused, projected, inputs, need_weights)
        if found is not None:
            output, weights, logits = found
        else:
            # Split heads: queries (B, K, T, d), keys and values (B, K, S, d), earlier steps from the cache.
            inputs.split_heads(projected, {part: self.width(part) for part in self.projected})
            # Let a kernel compute the maps, if it supports this class and these tensors.
            maps = None if fused is None else self.maps_by_kernel(fused, inputs, need_weights)
            if maps is not None:
                logits, weights = maps
            else:
                # Scores: the sum of the terms (EA eq. 1, 2).
                scores = self.scores(inputs)
                # Combine with the logits of the layer below (EA eq. 4, the skip connection).
                combined = self.combine(scores, inputs)
                # Transform the map, such as by a convolution (EA eq. 4).
                logits = self.transform(combined, inputs)
                # Mask, softmax (EA eq. 5).
                weights = self.normalize(logits, inputs)
                if self.recorded is not None:
                    self.recorded.update(own=scores, input=combined, logits=logits, probabilities=weights)
                    self.recorded["masked"] = inputs.masks.masked
                if self.passes_logits:
                    logits = inputs.masks.cleared(logits)
            # Reweigh, drop out.
            weights = self.reweigh(weights, inputs)
            dropped = self.dropout_module(weights.type_as(inputs.v))
            # Weighted sum of the values, and what terms and a depthwise convolution add to it.
            added = (term.values(dropped, inputs) for term in self.terms if term.has_values)
            output = join_heads(sum(added, self.values(dropped, inputs)))
            if self.convolutions is not None and self.convolves_values:
                output = output + self.convolutions.of_values(inputs)

        # Project the output; pass on logits and values.
        return self.out_proj(output), weights, Passed(logits, inputs.first_values)

    def project_all(self, query: Tensor, key: Tensor, value: Tensor, inputs: Inputs) -> dict[str, Tensor | None]:
        """Projects tokens to queries, keys and values; a tensor's name has the letters of the parts in it.

        Returns:
            ``qkv`` (T, B, 3 C), in self-attention; or ``q`` (T, B, C) and ``kv`` (S, B, 2 C), without parts that no
            term reads. In decoding steps the keys and values of source tokens are projected once, into the cache.
        """
        cache = inputs.cache
        if cache is None and not self.self_attention and not query is key is value:
            memory = key if key is value else (key, value)
            return {"q": self.project(query, "q", inputs), "kv": self.project(memory, "kv", inputs)}
        if cache is None or not cache.has_source:
            projected = self.project(query if query is key is value else (query, key, value), "qkv", inputs)
            if cache is not None and projected is not None:  # values are always projected
                cache.make_room(projected, self.width("k") if "k" in self.projected else 0, self.width("v"))
            return {"qkv": projected}
        if cache.keys is None:
            keys, values = self.project(key, "k", inputs), self.project(value, "v", inputs)
            assert keys is not None and values is not None  # attention to source tokens reads both
            cache.take_source(keys, values, inputs.masks.padded_keys)
        return {"q": self.project(query, "q", inputs)}

    def project(self, x: Tensor | tuple[Tensor, ...], parts: str, inputs: Inputs) -> Tensor | None:
        """Projects tokens to queries, keys or values, side by side, without those that no term reads.

        Queries and keys are normalized and rotated if flags ask for it.

        Args:
            x: (T, B, C), or one such tensor for each part; parts: letters of "qkv", in this order.

        Returns:
            (T, B, n C) for n parts; None if there are none.
        """
        layers = {part: getattr(self, f"{part}_proj") for part in parts if part in self.projected}
        if not layers:
            return None
        if isinstance(x, tuple):
            own = dict(zip(parts, x, strict=True))
            found = [self.project_by(own[part], {part: layer}, inputs) for part, layer in layers.items()]
            projected = torch.cat(found, dim=-1)
        else:
            projected = self.project_by(x, layers, inputs)
        # Norms and rotations.
        if self.query_key is not None:
            projected = self.query_key(projected, {part: self.width(part) for part in layers}, inputs)
        return projected

    def project_by(self, x: Tensor, layers: dict[str, nn.Module], inputs: Inputs) -> Tensor:
        """Projects tokens (T, B, C) by layers, whose keys are letters of "qkv", to (T, B, n C), side by side."""
        if self.convolutions is not None and self.convolutions.act_on("".join(layers)):
            return self.convolutions.project(x, layers, inputs)
        return project(x, *layers.values()) if inputs.cache is None else inputs.cache.project(x, layers)

    def width(self, part: str) -> int:
        """Returns the total width of all heads' queries, keys or values (``q``, ``k``, ``v``)."""
        return self.num_heads * (self.head_dim if part == "v" else self.key_dim)

    def attend_by_kernel(
        self, fused: FusedLogits, projected: dict[str, Tensor | None], inputs: Inputs, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """Computes output (T, B, C), probabilities if needed, and logits in one kernel; None if no kernel can.

        Args:
            projected: what :meth:`project_all` returns.
        """
        dropout = self.dropout_module
        drops_out = dropout.p > 0 and (self.training or dropout.apply_during_inference)
        query, *others = projected.values()
        fuses_values = self.can_fuse_values and self.dot_product_only and self.key_dim == self.head_dim
        if query is None or drops_out or not fuses_values or self.convolves_values:
            return None
        if inputs.cache is not None:
            return step_by_kernel(fused, query, inputs, need_weights)
        if need_weights:
            return None
        memory = others[0] if others else None
        found = attend(query, memory, self.num_heads, self.scaling, fused, inputs.previous, inputs.masks)
        return found and (found[0], None, found[1])

    def maps_by_kernel(self, fused: FusedLogits, inputs: Inputs, need_weights: bool) -> tuple[Tensor, Tensor] | None:
        """Computes logits and probabilities (B, K, T, S) in one kernel; None if no kernel can."""
        if inputs.cache is not None or not takes_maps(fused, inputs.size, inputs.v, inputs.masks, need_weights):
            return None
        if self.dot_product_only:  # the kernel scales them
            scores, scale = inputs.q @ inputs.k.transpose(-1, -2), self.scaling
        else:
            scores, scale = self.scores(inputs), 1.0
        return evolve(scores, scale, fused, inputs.previous, inputs.masks, need_weights)

    def scores(self, inputs: Inputs) -> Tensor:
        """The sum of the terms, (B, K, T, S)."""
        first, *others = (term(inputs) for term in self.terms)
        return sum(others, first).expand(inputs.size)

    def reorder_incremental_state(self, incremental_state: dict | None, new_order: Tensor) -> Any:
        """Reorders the KV cache if no decoder does so; ``new_order`` (B,) has the former row of each hypothesis."""
        cache = self.get_incremental_state(incremental_state, "cache")
        if cache is not None and cache.owns_beam:
            cache.beam.reorder(new_order)
        return super().reorder_incremental_state(incremental_state, new_order)
