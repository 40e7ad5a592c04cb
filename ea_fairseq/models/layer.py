"""fairseq's Transformer layers with evolving attention."""

from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ea_fairseq.attention.attention import EvolvingAttention, LayerLogits
from ea_fairseq.attention.masks import AttentionMasks
from ea_fairseq.mechanisms.evolution import Evolution, EvolutionOptions


class SubLayers:
    """What encoder and decoder layers share; x is (T, B, C) throughout."""

    def build_attention(self, embed_dim: int, num_heads: int, evolution: Evolution, cfg, **kwargs) -> EvolvingAttention:
        return EvolvingAttention(
            embed_dim,
            num_heads,
            evolution,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            **kwargs,
        )

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x) if self.normalize_before else x

    def after(self, norm: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
        x = self.residual_connection(self.dropout_module(x), residual)
        return x if self.normalize_before else norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.before(self.final_layer_norm, x)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        return self.after(self.final_layer_norm, self.fc2(x), residual)


class EATransformerEncoderLayer(SubLayers, TransformerEncoderLayerBase):
    """An encoder layer that takes the previous layer's logits and hands on its own."""

    def build_self_attention(self, embed_dim: int, cfg) -> EvolvingAttention:
        evolution = EvolutionOptions.from_namespace(cfg).encoder
        return self.build_attention(embed_dim, cfg.encoder.attention_heads, evolution, cfg, self_attention=True)

    def forward(
        self, x: Tensor, masks: AttentionMasks, previous_logits: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """
        Args:
            x: (S, B, C); masks: of padding; previous_logits: (B, K, S, S).

        Returns:
            x of the same shape and this layer's logits (None when they do not evolve).
        """
        residual = x
        x = self.before(self.self_attn_layer_norm, x)
        x, _, logits = self.self_attn(x, x, x, need_weights=False, previous_logits=previous_logits, masks=masks)
        x = self.after(self.self_attn_layer_norm, x, residual)
        return self.feed_forward(x), logits


class EATransformerDecoderLayer(SubLayers, TransformerDecoderLayerBase):
    """A decoder layer that takes the previous layer's logits, of both its attentions, and hands on its own."""

    def build_self_attention(self, embed_dim: int, cfg, **kwargs) -> EvolvingAttention:
        evolution = EvolutionOptions.from_namespace(cfg).decoder
        return self.build_attention(
            embed_dim, cfg.decoder.attention_heads, evolution, cfg, self_attention=True, **kwargs
        )

    def build_encoder_attention(self, embed_dim: int, cfg) -> EvolvingAttention:
        return self.build_attention(
            embed_dim,
            cfg.decoder.attention_heads,
            EvolutionOptions.from_namespace(cfg).cross,
            cfg,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            encoder_decoder_attention=True,
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None,
        self_masks: AttentionMasks,
        cross_masks: AttentionMasks,
        incremental_state: dict | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        previous_self: Tensor | None = None,
        previous_cross: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """
        Args:
            x: (T, B, C); encoder_out: (S, B, C'); self_masks: of padding and later words among the target;
            cross_masks: of padding; previous_self: (B, K, T, T); previous_cross: (B, K, T, S).

        Returns:
            x, the encoder-decoder probabilities or None, and the two logits of :class:`LayerLogits`: all at the
            top level, because activation checkpointing sees the tensors there and no others.
        """
        residual = x
        x = self.before(self.self_attn_layer_norm, x)
        x, _, self_logits = self.self_attn(
            x,
            x,
            x,
            incremental_state=incremental_state,
            need_weights=False,
            previous_logits=previous_self,
            masks=self_masks,
        )
        x = self.after(self.self_attn_layer_norm, x, residual)

        weights = cross_logits = None
        if self.encoder_attn is not None and encoder_out is not None:
            residual = x
            x = self.before(self.encoder_attn_layer_norm, x)
            x, weights, cross_logits = self.encoder_attn(
                x,
                encoder_out,
                encoder_out,
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
                previous_logits=previous_cross,
                masks=cross_masks,
            )
            x = self.after(self.encoder_attn_layer_norm, x, residual)
        return self.feed_forward(x), weights, *LayerLogits(self_logits, cross_logits)


def wrap(layer: nn.Module, cfg) -> nn.Module:
    """Applies activation checkpointing and sharding to a layer where the options ask for them, as fairseq does."""
    if cfg.checkpoint_activations:
        return fsdp_wrap(checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations), min_num_params=0)
    return fsdp_wrap(layer, min_num_params=cfg.min_params_to_wrap)
