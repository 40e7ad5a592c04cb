"""Multi-head attention whose logits continue the previous layer's and pass through a convolution."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.masks import AttentionMasks, probabilities
from ea_fairseq.attention.projections import project
from ea_fairseq.decoding.cache import AttentionCache
from ea_fairseq.decoding.step import decode, of_hypotheses
from ea_fairseq.kernels.attention_operator import attend, map_shape, words_of
from ea_fairseq.kernels.dispatch import is_fused, is_native
from ea_fairseq.kernels.evolution_operator import evolve
from ea_fairseq.kernels.tensors import spread
from ea_fairseq.mechanisms.evolution import Evolution


class LayerLogits(NamedTuple):
    """The logits one layer hands to the next: (B, K, T, S) for B sentences, K heads, T queries and S keys.

    None stands for an attention that hands nothing on, because its evolution is off or it does not exist.
    """

    self_attention: Tensor | None = None
    cross_attention: Tensor | None = None


class EvolvingAttention(MultiheadAttention):
    """fairseq's multi-head attention with evolving logits (Evolving Attention with Residual Convolutions, ICML 2021).

    Parameters are fairseq's plus ``conv`` (a K x K convolution with bias) where the evolution has one. With the
    evolution off this is fairseq's attention itself.
    """

    IDENTITY_SHIFT = 20.0

    def __init__(self, embed_dim: int, num_heads: int, evolution: Evolution, **kwargs):
        super().__init__(embed_dim, num_heads, **kwargs)
        self.evolution = evolution
        self.conv = nn.Conv2d(num_heads, num_heads, evolution.kernel_size) if evolution.beta > 0 else None
        self.recorded: dict[str, Tensor | None] | None = None  # where ea_fairseq.analysis.maps has the maps put
        if self.conv is not None and evolution.identity:
            self.start_as_identity()
        if self.conv is None and evolution.alpha > 0:
            # Marks the checkpoint: a plain Transformer would load it, and lose the skip connection, without a word.
            self.register_buffer("skip", torch.empty(0))

    @torch.no_grad()
    def start_as_identity(self):
        """Lets each head of ``conv`` copy its own entry and add a constant.

        beta * ReLU(x + c) + (1 - beta) * x = x + beta * c wherever x > -c, and the softmax does not see what is added
        to a whole row: the attention starts out with the probabilities it would have without its convolution.
        """
        left, _, above, _ = self.evolution.window.margins(self.evolution.kernel_size)
        self.conv.weight.zero_()
        self.conv.weight[:, :, above, left].fill_diagonal_(1.0)
        self.conv.bias.fill_(self.IDENTITY_SHIFT)

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
        previous_logits: Tensor | None = None,
        masks: AttentionMasks | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Attends and returns the logits for the next layer.

        Args:
            query: (T, B, C); key, value: (S, B, C).
            key_padding_mask: (B, S), true where a key is padding.
            query_padding_mask: (B, T), true where a query is padding; such rows are zero for the convolution.
            incremental_state: with it, ``query`` is one step and earlier steps are remembered.
            need_weights, need_head_weights: return the probabilities (B, T, S), or by head (K, B, T, S).
            static_kv: keys and values do not change between steps.
            attn_mask: (T, S), true where a query must not see a key; or what is added to its logits, -1e4 or less
                there. The convolution and the next layer read a zero where a key is not seen, and no other number of
                the mask. With the evolution off it is fairseq's.
            previous_logits: (B, K, T, S) from the layer before.
            masks: instead of ``key_padding_mask``, ``query_padding_mask`` and ``attn_mask``.

        Returns:
            Output (T, B, C), probabilities or None, logits (B, K, T, S) or None.

        Raises:
            ValueError, TypeError, RuntimeError: where a tensor is of another size or type. Masks and previous logits
                may have one row or column for all.
        """
        if self.evolution.is_off and self.recorded is None:
            if masks is not None:
                key_padding_mask, attn_mask = masks.keys, masks.attn_mask(query)
            elif attn_mask is not None and attn_mask.dtype is torch.bool:  # which fairseq's steps would add as ones
                attn_mask = AttentionMasks(later=attn_mask).attn_mask(query)
            if static_kv and not self._get_input_buffer(incremental_state):
                key, value, key_padding_mask = of_hypotheses(incremental_state, key, value, key_padding_mask)
            output, weights = super().forward(
                query,
                key,
                value,
                key_padding_mask=key_padding_mask,
                incremental_state=incremental_state,
                need_weights=need_weights,
                static_kv=static_kv,
                attn_mask=attn_mask,
                need_head_weights=need_head_weights,
            )
            return output, weights, None

        if masks is None:
            masks = AttentionMasks.of(key_padding_mask, query_padding_mask, attn_mask)
        need_weights = need_weights or need_head_weights
        if incremental_state is not None:
            step = self, query, key, value, masks, need_weights, previous_logits
            output, weights, logits = decode(*step, incremental_state)
        else:
            output, weights, logits = self._attend(query, key, value, masks, need_weights, previous_logits)
        output = self.out_proj(output)
        if need_head_weights:
            return output, weights.transpose(0, 1), logits
        return output, weights.mean(dim=1) if need_weights else None, logits

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: AttentionMasks,
        need_weights: bool,
        previous: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Output (T, B, C) before its projection, probabilities, if they are needed, and logits (B, K, T, S)."""
        if query is key and key is value:
            query, memory = project(query, self.q_proj, self.k_proj, self.v_proj), None
        elif key is value:
            query, memory = self.q_proj(query), project(key, self.k_proj, self.v_proj)
        else:
            query, memory = self.q_proj(query), torch.cat((self.k_proj(key), self.v_proj(value)), dim=-1)
        kernels = self.recorded is None and masks.added is None
        if kernels and not need_weights and not self.drops_out and is_native(query) and has_maps(query, memory):
            evolving = self._evolving(previous, masks, map_shape(query, memory, self.num_heads))
            output, logits = attend(query, memory, *evolving, heads=self.num_heads, **self._numbers())
            return output, None, logits
        q, k, v = (self.split_heads(x) for x in words_of(query, memory))
        if kernels and is_fused(q, exact=need_weights) and has_maps(query, memory):
            scores = q @ k.transpose(-1, -2)
            logits, weights = evolve(scores, *self._evolving(previous, masks, scores.shape), **self._numbers())
        else:
            own = (q * self.scaling) @ k.transpose(-1, -2)  # (B, K, T, S), EA eq. 1
            previous, _, _, masks = self._evolving(previous, masks, own.shape)
            logits = self.evolve(own, previous, masks.blank)
            weights = probabilities(logits, masks)
            if self.recorded is not None:
                self.recorded.update(own=own, logits=logits, unseen=masks.unseen, probabilities=weights)
        output = self.dropout_module(weights.type_as(v)) @ v  # (B, K, T, d), EA eq. 5
        return self.join_heads(output), weights, logits

    @property
    def drops_out(self) -> bool:
        dropout = self.dropout_module
        return dropout.p > 0 and (dropout.training or dropout.apply_during_inference)

    def _evolving(self, previous: Tensor | None, masks: AttentionMasks, size: tuple[int, ...]) -> tuple:
        """What scores of a size (B, K, T, S) evolve with: previous logits, weight and bias, masks."""
        sentences, _, queries, keys = size
        parameters = (None, None) if self.conv is None else (self.conv.weight, self.conv.bias)
        previous = None if self.evolution.alpha == 0 else spread("previous_logits", previous, *size)
        return previous, *parameters, masks.of_size(sentences, queries, keys)

    def _numbers(self) -> dict[str, float]:
        left, _, above, _ = self.evolution.window.margins(self.evolution.kernel_size)
        alpha, beta = self.evolution.alpha, self.evolution.beta
        return {"scale": self.scaling, "alpha": alpha, "beta": beta, "above": above, "left": left}

    def evolve(
        self,
        own: Tensor,
        previous: Tensor | None,
        blank: Tensor | None = None,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """Mixes this layer's own logits with the previous layer's, then with their convolution.

        Args:
            own, previous: (B, K, T, S); ``previous`` is None in the first layer.
            blank: broadcastable to (B, 1, T, S), true where an entry is padding or lies in the future.
            cache: has the rows of earlier decoding steps, and keeps this one, where T is one step.

        Returns:
            (B, K, T, S). Real entries depend on no blank one; what blank ones hold is cleared before it is read.
        """
        logits = own
        if self.evolution.alpha > 0 and previous is not None:
            logits = torch.lerp(own, previous, self.evolution.alpha)  # EA eq. 4
        if self.recorded is not None:
            self.recorded["input"] = logits
        if self.conv is None:
            return logits
        if blank is not None:
            # Zero, not -inf, and before the convolution: its neighbours must not tell how much padding there is.
            logits = logits.masked_fill(blank, 0.0)
        convolved = self._convolve(channels_last(logits), cache)
        return torch.lerp(logits, F.relu(convolved), self.evolution.beta)  # EA eq. 4

    def _convolve(self, logits: Tensor, cache: AttentionCache | None) -> Tensor:
        margins = self.evolution.window.margins(self.evolution.kernel_size)
        if len(set(margins)) == 1:
            return F.conv2d(logits, self.conv.weight, self.conv.bias, padding=margins[0])
        return self.conv(self._with_margins(logits, cache))

    def _with_margins(self, logits: Tensor, cache: AttentionCache | None) -> Tensor:
        """Surrounds the map with the entries a tap reads beyond it: zeros, or the rows of earlier decoding steps."""
        left, right, above, below = self.evolution.window.margins(self.evolution.kernel_size)
        if cache is None or above == 0:
            return F.pad(logits, (left, right, above, below))
        return F.pad(cache.below_earlier_rows(logits), (left, right))

    def split_heads(self, x: Tensor) -> Tensor:
        """(T, B, C) -> (B, K, T, d)"""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def join_heads(self, x: Tensor) -> Tensor:
        """(B, K, T, d) -> (T, B, C)"""
        return x.permute(2, 0, 1, 3).flatten(2)

    def reorder_incremental_state(self, incremental_state: dict | None, new_order: Tensor):
        """Lets what is remembered follow the hypotheses of beam search, unless their decoder sees to that."""
        cache = self.get_incremental_state(incremental_state, "cache")
        if cache is not None and cache.is_alone:
            cache.hypotheses.reorder(new_order)
        return super().reorder_incremental_state(incremental_state, new_order)


def has_maps(query: Tensor, memory: Tensor | None) -> bool:
    """Whether kernels take words (T, B, C) and (S, B, 2 C): not where there are none, nor one sentence for all."""
    if memory is None:
        return query.numel() > 0
    return query.size(1) == memory.size(1) and query.numel() > 0 and memory.numel() > 0


def channels_last(logits: Tensor) -> Tensor:
    """In the memory format in which a CPU convolves few channels fastest: its gradient takes a third of the time."""
    return logits.contiguous(memory_format=torch.channels_last) if logits.device.type == "cpu" else logits
