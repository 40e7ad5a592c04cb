"""fairseq's Transformer layers, with attentions that pass logits or values on to the next layer."""

from collections.abc import Callable
from typing import Any, cast

import torch
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.blocks.branch import Branch
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.models.build_attention import build_attention
from ea_fairseq.models.layer_options import LayerOptions


class MechanismLayer(nn.Module):
    """Code that encoder and decoder layers share. Mixed in with a layer class of fairseq; x is (T, B, C) throughout."""

    self_attn: Attention
    branch: Branch | None
    options: LayerOptions
    connections: nn.ModuleDict | None
    # Attributes that fairseq's layers set.
    dropout_module: nn.Module
    embed_dim: int
    activation_dropout_module: nn.Module
    activation_fn: Callable[[Tensor], Tensor]
    fc1: nn.Module
    fc2: nn.Module
    final_layer_norm: nn.Module
    self_attn_layer_norm: nn.Module
    normalize_before: bool
    quant_noise: float
    quant_noise_block_size: int
    residual_connection: Callable[[Tensor, Tensor], Tensor]

    def __init__(
        self,
        cfg: Any,
        *args: Any,
        attention: type[Attention],
        cross: type[Attention],
        layer: int,
        shared: dict[str, nn.Module],
    ):
        """
        Args:
            attention: the class of self-attentions.
            cross: the class of encoder-decoder attentions.
            layer: the layer's index, from 0.
            shared: modules that layers of a stack share, see :class:`~ea_fairseq.attention.mechanism.LayerContext`.
        """
        # fairseq's constructor calls the methods that build parts, which read these.
        self._attention, self._cross, self._layer, self._shared = attention, cross, layer, shared
        self.options = options = LayerOptions.from_namespace(cfg)
        super().__init__(cfg, *args)
        self.activation_fn = options.activation(self.activation_fn)
        options.replace_norms(self)
        self.connections = options.connect(self, self.embed_dim, layer)

    def build_fc1(self, input_dim: int, output_dim: int, *noise: Any) -> nn.Module:
        """Builds the first linear layer of the feed-forward network."""
        options = self.options
        return quant_noise(nn.Linear(input_dim, options.first_outputs(output_dim), not options.no_biases), *noise)

    def build_fc2(self, input_dim: int, output_dim: int, *noise: Any) -> nn.Module:
        """Builds the second linear layer of the feed-forward network."""
        options = self.options
        return quant_noise(nn.Linear(options.hidden_units(input_dim), output_dim, not options.no_biases), *noise)

    def build_attention(self, kind: str, cfg: Any, embed_dim: int, num_heads: int, **kwargs: Any) -> Attention:
        """Builds the attention of a kind (``encoder``, ``decoder`` or ``cross``), and the branch parallel to it.

        Raises:
            UserError: if the number of heads does not fit the branch or a flag.
        """
        attention = self._cross if kind == "cross" else self._attention
        options, context = attention.options.from_namespace(cfg), LayerContext(kind, self._layer, self._shared)
        # A branch takes its channels away from self-attention.
        if kind != "cross":
            self.branch = cast("Branch | None", attention.build_branch(options, context, embed_dim, num_heads))
            width = 0 if self.branch is None else self.branch.width
            embed_dim -= width
            if embed_dim % num_heads and not self.options.head_dim:
                raise UserError(
                    f"--{kind}-attention-heads must divide the {embed_dim} channels of self-attention (another branch "
                    f"has {width} of --{kind}-embed-dim), and {num_heads} does not"
                )
        noise: dict[str, Any] = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        return build_attention(attention, cfg, context, embed_dim, num_heads, **noise, **kwargs)

    def attend_to_self(
        self, x: Tensor, masks: AttentionMasks, previous: Passed, incremental_state: dict | None = None
    ) -> tuple[Tensor, Passed]:
        """Returns the output (T, B, C) of self-attention and of the branch, and what the attention passes on.

        Args:
            x: (T, B, C), or (3, T, B, C), from which queries, keys and values are projected.
        """
        # Split the channels between self-attention and the branch.
        attended = rest = x
        if self.branch is not None:
            attended, rest = self.branch.share(x)
        # Self-attention.
        attended, _, passed = self.self_attn(
            *(attended if attended.dim() == 4 else (attended,) * 3),
            incremental_state=incremental_state,
            need_weights=False,
            previous=previous,
            masks=masks,
        )
        # Branch, concatenated along the channels.
        if self.branch is not None:
            attended = torch.cat([attended, self.branch(rest, masks, incremental_state)], dim=-1)
        return attended, passed

    def sublayer_input(self, norm: nn.Module, x: Tensor) -> tuple[Tensor, Any]:
        """Returns a sub-layer's input, normalized in pre-norm layers (``--encoder-normalize-before``), and residual.

        Args:
            x: (T, B, C); or a state (T, B, n, C) of connections; or what MUDD mixes for queries, keys, values and the
                residual, (4, T, B, C).

        Returns:
            (T, B, C), or (3, T, B, C) with MUDD, and what :meth:`sublayer_output` takes as ``residual``.
        """
        if self.connections is not None:
            read, residual = self.connection(norm).read(x)
        elif x.dim() == 4:
            read, residual = x[:-1], x[-1]
        else:
            read = residual = x
        return norm(read) if self.normalize_before else read, residual

    def sublayer_output(self, norm: nn.Module, x: Tensor, residual: Any) -> Tensor:
        """Applies dropout, the residual or other connection and, in post-norm layers, the layer norm, (T, B, C)."""
        x = self.dropout_module(x)
        if self.connections is not None:
            return self.connection(norm).write(residual, x)
        x = self.residual_connection(x, residual)
        return x if self.normalize_before else norm(x)

    def connection(self, norm: nn.Module) -> Any:
        """Returns the connection of the sub-layer that has this norm."""
        assert self.connections is not None
        return next(connection for name, connection in self.connections.items() if getattr(self, name) is norm)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Applies the feed-forward network, the layer's last sub-layer, (T, B, C) -> (T, B, C)."""
        x, residual = self.sublayer_input(self.final_layer_norm, x)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        return self.sublayer_output(self.final_layer_norm, self.fc2(x), residual)


class MechanismEncoderLayer(MechanismLayer, TransformerEncoderLayerBase):
    """An encoder layer whose self-attention receives what the one of the layer below passes on."""

    def build_self_attention(self, embed_dim: int, cfg: Any) -> Attention:
        return self.build_attention("encoder", cfg, embed_dim, cfg.encoder.attention_heads, self_attention=True)

    def forward(self, x: Tensor, masks: AttentionMasks, *previous: Tensor | None) -> tuple[Tensor | None, ...]:
        """
        Args:
            x: (S, B, C), or what connections pass from layer to layer.
            masks: of padding.
            previous: what the layer below passes on; empty in the first layer.

        Returns:
            x of the same shape, and what the next layer takes as ``previous``. The tensors are not nested, because
            activation checkpointing only sees tensors at the top level.
        """
        # Self-attention.
        x, residual = self.sublayer_input(self.self_attn_layer_norm, x)
        x, passed = self.attend_to_self(x, masks, Passed(*previous))
        x = self.sublayer_output(self.self_attn_layer_norm, x, residual)
        # Feed-forward network.
        return self.feed_forward(x), *passed


class MechanismDecoderLayer(MechanismLayer, TransformerDecoderLayerBase):
    """A decoder layer whose two attentions receive what those of the layer below pass on."""

    encoder_attn: Attention | None
    encoder_attn_layer_norm: nn.Module
    need_attn: bool

    def build_self_attention(self, embed_dim: int, cfg: Any, **kwargs: Any) -> Attention:
        return self.build_attention(
            "decoder", cfg, embed_dim, cfg.decoder.attention_heads, self_attention=True, **kwargs
        )

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> Attention:
        width = cfg.encoder.embed_dim
        heads, encoder_dims = cfg.decoder.attention_heads, {"kdim": width, "vdim": width}
        return self.build_attention("cross", cfg, embed_dim, heads, encoder_decoder_attention=True, **encoder_dims)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None,
        self_masks: AttentionMasks,
        cross_masks: AttentionMasks,
        incremental_state: dict | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        *previous: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        """
        Args:
            x: (T, B, C).
            encoder_out: (S, B, C').
            self_masks: of target padding and future tokens.
            cross_masks: of source padding.
            previous: what self-attention and encoder-decoder attention of the layer below pass on; empty in the first
                layer.

        Returns:
            x, the encoder-decoder probabilities or None, and what the next layer takes as ``previous``.
        """
        parts = len(Passed._fields)
        previous_self, previous_cross = Passed(*previous[:parts]), Passed(*previous[parts:])
        # Causal self-attention.
        x, residual = self.sublayer_input(self.self_attn_layer_norm, x)
        x, passed_self = self.attend_to_self(x, self_masks, previous_self, incremental_state)
        x = self.sublayer_output(self.self_attn_layer_norm, x, residual)

        # Encoder-decoder attention.
        weights, passed_cross = None, NOTHING
        if self.encoder_attn is not None and encoder_out is not None:
            x, residual = self.sublayer_input(self.encoder_attn_layer_norm, x)
            x, weights, passed_cross = self.encoder_attn(
                x,
                encoder_out,
                encoder_out,
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
                previous=previous_cross,
                masks=cross_masks,
            )
            x = self.sublayer_output(self.encoder_attn_layer_norm, x, residual)

        # Feed-forward network.
        return self.feed_forward(x), weights, *passed_self, *passed_cross
