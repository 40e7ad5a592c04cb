"""Multi-head attention whose logits continue the previous layer's and pass through a convolution."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.evolution import Evolution


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
        self.recorded: dict[str, Tensor | None] | None = None  # where ea_fairseq.attention_maps has the maps put
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
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Attends and returns the logits for the next layer.

        Args:
            query: (T, B, C); key, value: (S, B, C).
            key_padding_mask: (B, S), true where a key is padding.
            query_padding_mask: (B, T), true where a query is padding; such rows are zero for the convolution.
            incremental_state: with it, ``query`` is one step and earlier steps are remembered.
            need_weights, need_head_weights: return the probabilities (B, T, S), or by head (K, B, T, S).
            static_kv: keys and values do not change between steps.
            attn_mask: (T, S), -inf where a key comes later than the query.
            previous_logits: (B, K, T, S) from the layer before.

        Returns:
            Output (T, B, C), probabilities or None, logits (B, K, T, S) or None.
        """
        if self.evolution.is_off and self.recorded is None:
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

        q = self._split_heads(self.q_proj(query) * self.scaling)
        k, v, key_padding_mask = self._keys_and_values(key, value, key_padding_mask, incremental_state, static_kv)
        hypotheses = q.size(0) // k.size(0)  # more than one where a sentence's beam shares its keys
        if hypotheses > 1:
            k, v = k.repeat_interleave(hypotheses, 0), v.repeat_interleave(hypotheses, 0)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.repeat_interleave(hypotheses, 0)
        unseen = unseen_keys(key_padding_mask, attn_mask)

        own = q @ k.transpose(-1, -2)  # (B, K, T, S), EA eq. 1
        logits = self.evolve(own, previous_logits, blank_entries(unseen, query_padding_mask), incremental_state)
        # Unseen keys get the lowest number, not -inf: a row without any key stays finite.
        visible = logits if unseen is None else logits.masked_fill(unseen, torch.finfo(logits.dtype).min)
        # As in fairseq, half precision ends before the softmax and returns after it.
        weights = visible.softmax(dim=-1, dtype=torch.promote_types(visible.dtype, torch.float32))
        if self.recorded is not None:
            self.recorded.update(own=own, logits=logits, unseen=unseen, probabilities=weights)
        output = self.dropout_module(weights.type_as(v)) @ v  # (B, K, T, d), EA eq. 5
        output = self.out_proj(output.permute(2, 0, 1, 3).flatten(2))

        if need_head_weights:
            return output, weights.transpose(0, 1), logits
        return output, weights.mean(dim=1) if need_weights else None, logits

    def evolve(
        self,
        own: Tensor,
        previous: Tensor | None,
        blank: Tensor | None = None,
        incremental_state: dict | None = None,
    ) -> Tensor:
        """Mixes this layer's own logits with the previous layer's, then with their convolution.

        Args:
            own, previous: (B, K, T, S); ``previous`` is None in the first layer.
            blank: broadcastable to (B, 1, T, S), true where an entry is padding or lies in the future.

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
        convolved = self.conv(self._with_margins(logits, incremental_state))
        return torch.lerp(logits, F.relu(convolved), self.evolution.beta)  # EA eq. 4

    def _with_margins(self, logits: Tensor, incremental_state: dict | None) -> Tensor:
        """Surrounds the map with the entries a tap reads beyond it: zeros, or the rows of earlier decoding steps."""
        left, right, above, below = self.evolution.window.margins(self.evolution.kernel_size)
        if incremental_state is None or above == 0:
            return F.pad(logits, (left, right, above, below))
        saved = self.get_incremental_state(incremental_state, "logit_rows")
        if saved is None:
            rows = F.pad(logits, (0, 0, above, 0))
        else:
            new_columns = logits.size(-1) - saved["rows"].size(-1)
            rows = torch.cat([F.pad(saved["rows"], (0, new_columns)), logits], dim=2)
        self.set_incremental_state(incremental_state, "logit_rows", {"rows": rows[:, :, -above:]})
        return F.pad(rows, (left, right))

    def _split_heads(self, x: Tensor) -> Tensor:
        """(T, B, C) -> (B, K, T, d)"""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def _keys_and_values(
        self,
        key: Tensor | None,
        value: Tensor | None,
        padding_mask: Tensor | None,
        incremental_state: dict | None,
        static_kv: bool,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Projects keys and values, (B, K, S, d), and joins them to those of earlier decoding steps."""
        saved = self._get_input_buffer(incremental_state)
        if static_kv and "prev_key" in saved:
            return saved["prev_key"], saved["prev_value"], saved["prev_key_padding_mask"]
        if self.encoder_decoder_attention and self.beam_size > 1 and incremental_state is not None:
            key, value = key[:, :: self.beam_size], value[:, :: self.beam_size]
            padding_mask = padding_mask[:: self.beam_size] if padding_mask is not None else None
        k, v = self._split_heads(self.k_proj(key)), self._split_heads(self.v_proj(value))
        if incremental_state is None:
            return k, v, padding_mask
        if "prev_key" in saved:
            k = torch.cat([saved["prev_key"], k], dim=2)
            v = torch.cat([saved["prev_value"], v], dim=2)
            padding_mask = self._append_prev_key_padding_mask(
                padding_mask, saved["prev_key_padding_mask"], k.size(0), k.size(2), static_kv
            )
        self._set_input_buffer(
            incremental_state, {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding_mask}
        )
        return k, v, padding_mask

    def reorder_incremental_state(self, incremental_state: dict | None, new_order: Tensor):
        """Lets the remembered rows follow the hypotheses of beam search; keys and values follow as in fairseq.

        The rows differ between the hypotheses of a sentence even where its keys are shared among them.
        """
        saved = self.get_incremental_state(incremental_state, "logit_rows")
        if saved is not None:
            rows = {"rows": saved["rows"].index_select(0, new_order)}
            self.set_incremental_state(incremental_state, "logit_rows", rows)
        return super().reorder_incremental_state(incremental_state, new_order)


def unseen_keys(key_padding_mask: Tensor | None, attn_mask: Tensor | None) -> Tensor | None:
    """True, broadcastable to (B, 1, T, S), where a query must not see a key: padding or a later word."""
    unseen = None
    if key_padding_mask is not None:
        unseen = key_padding_mask.bool()[:, None, None, :]
    if attn_mask is not None:
        future = attn_mask.isinf()
        unseen = future if unseen is None else unseen | future
    return unseen


def blank_entries(unseen: Tensor | None, query_padding_mask: Tensor | None) -> Tensor | None:
    """True, broadcastable to (B, 1, T, S), where the map holds nothing: unseen keys and rows of padding."""
    if query_padding_mask is None:
        return unseen
    padded_rows = query_padding_mask.bool()[:, None, :, None]
    return padded_rows if unseen is None else unseen | padded_rows
