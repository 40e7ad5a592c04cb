"""fairseq's Transformer decoder, whose layers pass logits or values on to the next layer."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from ea_fairseq.attention.beam import BeamState, SelectedRows, by_sentence
from ea_fairseq.kernels.masks import AttentionMasks, none_if_empty
from ea_fairseq.models.encoder import EncoderOutput
from ea_fairseq.models.layer import MechanismDecoderLayer
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.models.stack import MechanismStack


class MechanismDecoder(MechanismStack, TransformerDecoderBase):
    """fairseq's Transformer decoder, in which both attentions receive what those of the layer below pass on."""

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any):
        super().__init__(cfg, *args, **kwargs)
        options = LayerOptions.from_namespace(cfg)
        self.logit_scale = cfg.decoder.embed_dim**-0.5 if options.scale_logits else 1.0
        self.start_token = self.padding_idx if options.start_with_padding else None  # None: as in fairseq's batches

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return self.build_layer(MechanismDecoderLayer, cfg, no_encoder_attn)

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput | None,
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            prev_output_tokens: (B, T); with ``incremental_state`` only the last token of each row is new.
            full_context_alignment: whether self-attention is not causal.
            alignment_layer, alignment_heads: layer and number of heads whose encoder-decoder probabilities are
                returned as alignment; the last layer and all heads by default.

        Returns:
            Features (B, T, C), and a dictionary with the alignment (B, T, S) and the states (T, B, C).
        """
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        # Embed tokens and positions; in a decoding step, only the last token.
        x, padding_mask = self.embed_target(prev_output_tokens, incremental_state)
        if incremental_state is not None:
            encoder_out = begin_decoding_step(incremental_state, encoder_out, padding_mask, x)
        # Masks: a decoding step needs no causal one, because the cache has no future tokens.
        source = first(encoder_out, "encoder_out")
        source_padding_mask = first(encoder_out, "encoder_padding_mask")
        future = None if incremental_state is not None or full_context_alignment else future_mask(x)
        self_masks = AttentionMasks(padding_mask, future=future)
        cross_masks = AttentionMasks(source_padding_mask, padding_mask)

        # Each layer takes what both attentions of the one below pass on.
        alignment = None
        states = [self.connections.begin(x)]
        passed = ()
        for index, layer in enumerate(self.layers):
            x, weights, *passed = layer(
                self.layer_input(states),
                source,
                self_masks,
                cross_masks,
                incremental_state,
                index == alignment_layer,
                index == alignment_layer,
                *passed,
            )
            states.append(x)
            if index == alignment_layer and weights is not None:
                alignment = weights[:alignment_heads].to(x).mean(dim=0)

        # Final norm and projection, (B, T, C), and the scale of logits.
        x = self.connections.end(states)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = self.final_dropout(x).transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if self.logit_scale != 1:
            x = self.logit_scale * x
        return x, {"attn": [alignment], "inner_states": self.readable(states), "is_step": incremental_state is not None}

    def get_normalized_probs_scriptable(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Returns probabilities or log-probabilities of the vocabulary; in decoding steps they overwrite the logits.

        The logits of all hypotheses are the largest tensor of a decoding step, and allocating another one is slow.
        """
        logits, is_step = net_output[0], isinstance(net_output[-1], dict) and net_output[-1].get("is_step")
        in_place = is_step and log_probs and self.adaptive_softmax is None
        if in_place and logits.dtype == torch.float32 and not logits.requires_grad:
            return torch.log_softmax(logits, dim=-1, out=logits)
        return super().get_normalized_probs_scriptable(net_output, log_probs, sample)

    def embed_target(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, Tensor | None]:
        """Embeds target tokens (B, T), or only the last ones with ``incremental_state``.

        Returns:
            x (T, B, C) and the padding mask (B, T), or None if there is no padding.
        """
        # Look up positions and tokens.
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        # Replace the first token of each sentence.
        padding = tokens.eq(self.padding_idx)
        if self.start_token is not None:
            is_first = ~padding & (~padding).cumsum(dim=1).eq(1)
            tokens = tokens.masked_fill(is_first, self.start_token)
        if incremental_state is not None:
            tokens, padding = tokens[:, -1:], padding[:, -1:]
            positions = positions[:, -1:] if positions is not None else None
        x = self.embed_scale * self.embed_tokens(tokens)
        # Quantization noise and projection to the width of the layers.
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        # Add positions, normalize, apply dropout.
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x).transpose(0, 1)
        return x, none_if_empty(padding)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorders all KV caches for beam search: row ``new_order[i]`` becomes row i; ``new_order`` is (B,)."""
        if BeamState.KEY in incremental_state:
            incremental_state[BeamState.KEY].reorder(new_order)


def begin_decoding_step(
    incremental_state: dict, encoder_out: EncoderOutput | None, padding: Tensor | None, x: Tensor
) -> EncoderOutput | None:
    """Advances the beam state for tokens x (1, B, C); returns the encoder's output with one row per sentence."""
    if BeamState.KEY not in incremental_state:
        selected = encoder_out["encoder_out"] if encoder_out else None
        sentence = selected.rows if isinstance(selected, SelectedRows) else torch.arange(x.size(1), device=x.device)
        incremental_state[BeamState.KEY] = BeamState(sentence)
    incremental_state[BeamState.KEY].advance(padding)
    return encoder_out and {name: by_sentence(rows) for name, rows in encoder_out.items()}


def future_mask(x: Tensor) -> Tensor:
    """Returns the causal mask (T, T) for x (T, B, C), true where a key comes after the query.

    It is not cached: fairseq's buffer grows with the longest sentence so far, and each growth recompiles the graph.
    """
    length = x.size(0)
    return x.new_ones((length, length), dtype=torch.bool).triu(1)


def first(encoder_out: EncoderOutput | None, name: str) -> Tensor | None:
    """Returns the only tensor in a list of the encoder's output, or None if there is none."""
    return encoder_out[name][0] if encoder_out and encoder_out[name] else None
