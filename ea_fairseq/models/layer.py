"""fairseq's Transformer layers with attentions that hand something on to the next layer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.attention.widened import widen_heads
from ea_fairseq.blocks.branch import Branch
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks


class MechanismLayer(nn.Module):
    """What encoder and decoder layers share, beside a class of fairseq; x is (T, B, C) throughout."""

    self_attn: Attention
    branch: Branch | None
    # Of fairseq's layers.
    dropout_module: nn.Module
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

    def __init__(self, cfg: Any, *args: Any, attention: type[Attention], layer: int, shared: dict[str, nn.Module]):
        """
        Args:
            attention: what attentions are built of; layer: this one's number, from 0.
            shared: what layers of a stack share, see :class:`~ea_fairseq.attention.mechanism.LayerContext`.
        """
        self._attention, self._layer, self._shared = attention, layer, shared  # read while fairseq builds the layer
        super().__init__(cfg, *args)

    def build_attention(self, kind: str, cfg: Any, embed_dim: int, num_heads: int, **kwargs: Any) -> Attention:
        """The attention of a kind (``encoder``, ``decoder`` or ``cross``) of this layer, and the branch beside it.

        Raises:
            UserError: where a number of heads does not go with the branch or with a flag.
        """
        options, context = self._attention.options.from_namespace(cfg), LayerContext(kind, self._layer, self._shared)
        if kind != "cross":
            self.branch = cast("Branch | None", self._attention.build_branch(options, context, embed_dim, num_heads))
            width = 0 if self.branch is None else self.branch.width
            embed_dim -= width
            if embed_dim % num_heads:
                raise UserError(
                    f"--{kind}-attention-heads must divide the {embed_dim} of --{kind}-embed-dim that self-attention "
                    f"has beside {width} of another branch, and {num_heads} is no divisor"
                )
        noise = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        return build_attention(self._attention, cfg, context, embed_dim, num_heads, **noise, **kwargs)

    def attend_to_self(
        self, x: Tensor, masks: AttentionMasks, previous: Passed, incremental_state: dict | None = None
    ) -> tuple[Tensor, Passed]:
        """Self-attention and the branch beside it: (T, B, C), and what the attention passes on."""
        attended = rest = x
        if self.branch is not None:
            attended, rest = self.branch.share(x)
        attended, _, passed = self.self_attn(
            attended,
            attended,
            attended,
            incremental_state=incremental_state,
            need_weights=False,
            previous=previous,
            masks=masks,
        )
        if self.branch is not None:
            attended = torch.cat([attended, self.branch(rest, masks, incremental_state)], dim=-1)
        return attended, passed

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What a sub-layer reads, (T, B, C): normalized where ``--*-normalize-before`` says so."""
        return norm(x) if self.normalize_before else x

    def after(self, norm: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
        """What a sub-layer returns, (T, B, C): dropout, the residual connection, normalization."""
        x = self.residual_connection(self.dropout_module(x), residual)
        return x if self.normalize_before else norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The last sub-layer, (T, B, C) -> (T, B, C)."""
        residual = x
        x = self.before(self.final_layer_norm, x)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        return self.after(self.final_layer_norm, self.fc2(x), residual)


class MechanismEncoderLayer(MechanismLayer, TransformerEncoderLayerBase):
    """An encoder layer that takes what the layer below passes on, and passes on its own."""

    def build_self_attention(self, embed_dim: int, cfg: Any) -> Attention:
        return self.build_attention("encoder", cfg, embed_dim, cfg.encoder.attention_heads, self_attention=True)

    def forward(self, x: Tensor, masks: AttentionMasks, *previous: Tensor | None) -> tuple[Tensor | None, ...]:
        """
        Args:
            x: (S, B, C); masks: of padding; previous: what the layer below passes on, none of it in the first.

        Returns:
            x of the same shape, and what the next layer takes as ``previous``: tensors one by one, because activation
            checkpointing sees those at the top level and no others.
        """
        # Self-attention.
        residual = x
        x, passed = self.attend_to_self(self.before(self.self_attn_layer_norm, x), masks, Passed(*previous))
        x = self.after(self.self_attn_layer_norm, x, residual)
        # Feed-forward network.
        return self.feed_forward(x), *passed


class MechanismDecoderLayer(MechanismLayer, TransformerDecoderLayerBase):
    """A decoder layer that takes what both attentions of the layer below pass on, and passes on its own."""

    encoder_attn: Attention | None
    encoder_attn_layer_norm: nn.Module
    need_attn: bool

    def build_self_attention(self, embed_dim: int, cfg: Any, **kwargs: Any) -> Attention:
        return self.build_attention(
            "decoder", cfg, embed_dim, cfg.decoder.attention_heads, self_attention=True, **kwargs
        )

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> Attention:
        width = cfg.encoder.embed_dim
        heads, of_encoder = cfg.decoder.attention_heads, {"kdim": width, "vdim": width}
        return self.build_attention("cross", cfg, embed_dim, heads, encoder_decoder_attention=True, **of_encoder)

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
            x: (T, B, C); encoder_out: (S, B, C'); self_masks: of padding and later words among the target;
            cross_masks: of padding; previous: what self-attention and encoder-decoder attention of the layer below pass
            on, none of it in the first.

        Returns:
            x, the encoder-decoder probabilities or None, and what the next layer takes as ``previous``.
        """
        parts = len(Passed._fields)
        previous_self, previous_cross = Passed(*previous[:parts]), Passed(*previous[parts:])
        # Self-attention, which sees no later tokens.
        residual = x
        x = self.before(self.self_attn_layer_norm, x)
        x, of_self = self.attend_to_self(x, self_masks, previous_self, incremental_state)
        x = self.after(self.self_attn_layer_norm, x, residual)

        # Encoder-decoder attention.
        weights, of_cross = None, NOTHING
        if self.encoder_attn is not None and encoder_out is not None:
            residual = x
            x = self.before(self.encoder_attn_layer_norm, x)
            x, weights, of_cross = self.encoder_attn(
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
            x = self.after(self.encoder_attn_layer_norm, x, residual)

        # Feed-forward network.
        return self.feed_forward(x), weights, *of_self, *of_cross


def build_attention(
    kind: type[Attention], cfg: Any, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any
) -> Attention:
    """The attention of a layer, by the flags of its mechanism, of terms and of convolutions.

    Args:
        kwargs: those of fairseq's ``MultiheadAttention``.
    """
    options = kind.options.from_namespace(cfg)
    width = kind.width_of_heads(options, embed_dim, num_heads)
    attention = kind.build(
        options,
        context,
        embed_dim,
        num_heads,
        terms=TermOptions.from_namespace(cfg).build(context, width, num_heads),
        convolutions=ConvolutionOptions.from_namespace(cfg).build(context, embed_dim, num_heads, width),
        dropout=cfg.attention_dropout,
        **kwargs,
    )
    if width != embed_dim:
        widen_heads(attention, width, kwargs.get("q_noise", 0.0), kwargs.get("qn_block_size", 8))
    return attention


def wrap(layer: nn.Module, cfg: Any) -> nn.Module:
    """Applies activation checkpointing and sharding to a layer where the options ask for them, as fairseq does."""
    if cfg.checkpoint_activations:
        return fsdp_wrap(recomputed(layer, cfg.offload_activations), min_num_params=0)
    return fsdp_wrap(layer, min_num_params=cfg.min_params_to_wrap)


class Autocast(NamedTuple):
    """The arguments of ``torch.autocast``."""

    device_type: str
    dtype: torch.dtype
    enabled: bool

    @classmethod
    def current(cls, device_type: str) -> "Autocast":
        """What is on."""
        return cls(device_type, torch.get_autocast_dtype(device_type), torch.is_autocast_enabled(device_type))


def recomputed(layer: nn.Module, offload: bool) -> nn.Module:
    """The layer, in fairseq's activation checkpointing.

    fairseq computes the activations again outside of the autocast of the forward pass, where attentions would have
    logits in another type than what the layer below has handed on.

    Args:
        offload: whether the layer's input is kept in the memory of the CPU.
    """
    plain = layer.forward
    layer.forward = partial(under_autocast, plain)
    layer = checkpoint_wrapper(layer, offload_to_cpu=offload)
    layer.forward = partial(in_training, layer, plain, partial(with_autocast, layer.forward))
    return layer


def in_training(layer: nn.Module, plain: Callable, checkpointed: Callable, *args: Any, **kwargs: Any) -> Any:
    """A forward pass whose activations are computed again in training alone: no exporter knows how."""
    return (checkpointed if layer.training else plain)(*args, **kwargs)


def under_autocast(forward: Callable, *args: Any, autocast: Autocast | None = None, **kwargs: Any) -> Any:
    """A forward pass under an autocast, or as it is."""
    if autocast is None:
        return forward(*args, **kwargs)
    with torch.autocast(*autocast):
        return forward(*args, **kwargs)


def with_autocast(forward: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A forward pass that is told the autocast of now."""
    return forward(x, *args, autocast=Autocast.current(x.device.type), **kwargs)
