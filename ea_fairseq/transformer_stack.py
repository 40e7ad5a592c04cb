"""fairseq's Transformer encoder and decoder, their layers passing logits on."""

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor, nn

from ea_fairseq.evolving_attention import LayerLogits
from ea_fairseq.transformer_layer import EATransformerDecoderLayer, EATransformerEncoderLayer, wrap


class EATransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder whose self-attention logits evolve from layer to layer."""

    def build_encoder_layer(self, cfg) -> nn.Module:
        return wrap(EATransformerEncoderLayer(cfg), cfg)

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """
        Args:
            src_tokens: (B, S); token_embeddings: (B, S, C), looked up when absent.

        Returns:
            fairseq's dictionary of encoder outputs.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)  # (B, S, C)
        x = x.masked_fill(padding_mask.unsqueeze(-1), 0).transpose(0, 1)  # (S, B, C)
        states = [x]
        logits = None
        attention_mask = unless_empty(padding_mask)
        for layer in self.layers:
            x, logits = layer(x, attention_mask, previous_logits=logits)
            states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return {
            "encoder_out": [x],  # (S, B, C)
            "encoder_padding_mask": [padding_mask],  # (B, S)
            "encoder_embedding": [embedding],  # (B, S, C)
            "encoder_states": states if return_all_hiddens else [],  # each (S, B, C)
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True).int()],  # (B, 1)
        }


class EATransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder whose logits, of both attentions, evolve from layer to layer."""

    def build_decoder_layer(self, cfg, no_encoder_attn: bool = False) -> nn.Module:
        return wrap(EATransformerDecoderLayer(cfg, no_encoder_attn), cfg)

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None,
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            prev_output_tokens: (B, T); with ``incremental_state`` only its last column is new.
            full_context_alignment: let every target word see all others.
            alignment_layer, alignment_heads: layer and number of heads whose encoder-decoder probabilities are
                returned as alignment; the last layer and all heads by default.

        Returns:
            Features (B, T, C), and a dictionary with the alignment (B, T, S) and the states (T, B, C).
        """
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        source = first(encoder_out, "encoder_out")
        source_padding_mask = first(encoder_out, "encoder_padding_mask")
        x, padding_mask = self.embed_target(prev_output_tokens, incremental_state)
        future_mask = None
        if incremental_state is None and not full_context_alignment:
            future_mask = later_words(x)

        alignment = None
        states = [x]
        logits = LayerLogits()
        for index, layer in enumerate(self.layers):
            x, weights, *logits = layer(
                x,
                source,
                source_padding_mask,
                incremental_state,
                self_attn_mask=future_mask,
                self_attn_padding_mask=padding_mask,
                need_attn=index == alignment_layer,
                need_head_weights=index == alignment_layer,
                previous_self=logits[0],
                previous_cross=logits[1],
            )
            states.append(x)
            if index == alignment_layer and weights is not None:
                alignment = weights[:alignment_heads].to(x).mean(dim=0)

        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # (B, T, C)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [alignment], "inner_states": states}

    def embed_target(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, Tensor | None]:
        """Embeds target tokens (B, T), or only the last of them with ``incremental_state``.

        Returns:
            x (T, B, C) and, if there is padding, its mask (B, T).
        """
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = positions[:, -1:] if positions is not None else None
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x).transpose(0, 1)
        return x, unless_empty(tokens.eq(self.padding_idx))


def later_words(x: Tensor) -> Tensor:
    """(T, T) for x (T, B, C), -inf where a key comes later than the query.

    Made anew each time: fairseq's buffer grows with the longest sentence so far, and a graph compiled for one size of
    it is no use for the next.
    """
    length = x.size(0)
    return x.new_full((length, length), -torch.inf).triu(1)


def unless_empty(padding_mask: Tensor) -> Tensor | None:
    """The mask, or None where it marks no padding, as fairseq does to spare its attention the masking.

    A compiled or exported graph cannot branch on what a tensor holds: there the mask stays, with the same result.
    """
    return padding_mask if torch.compiler.is_compiling() or padding_mask.any() else None


def first(encoder_out: dict[str, list[Tensor]] | None, name: str) -> Tensor | None:
    """The tensor that fairseq keeps in a list of one, or None where there is none."""
    return encoder_out[name][0] if encoder_out and encoder_out[name] else None
