"""A Transformer as native code for CPUs reads it: packed parameters, and structs that point to them."""

from ctypes import Structure, c_void_p, cast
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.beam import room_for
from ea_fairseq.kernels.arguments import by_head
from ea_fairseq.kernels.cpu.structs import STRUCTS

PANEL = 64  # outputs of a linear layer that are stored side by side, as in translation.h


class NativeModel:
    """The packed parameters of an encoder and a decoder.

    Args:
        model: a model without any :func:`~ea_fairseq.search.support.unsupported_reasons`.
        bfloat16: whether linear layers multiply in bfloat16.

    Attributes:
        encoder, decoder: structs of their parameters.
        vocabulary_sizes: number of source and of target tokens.
        output_layer, output_projection: the layer that projects to the target vocabulary, and its struct.
        target_embeddings: (target tokens, C), scaled.
    """

    def __init__(self, model: TransformerModelBase, bfloat16: bool = False):
        self.bfloat16 = bfloat16
        self._referenced: list[object] = []  # what the structs point to
        self._position_counts: dict[str, int] = {}
        self._lock = Lock()
        self._embed_positions = {"encoder": model.encoder.embed_positions, "decoder": model.decoder.embed_positions}
        self.vocabulary_sizes = len(model.encoder.embed_tokens.weight), len(model.decoder.embed_tokens.weight)
        self.target_embeddings = scaled_embeddings(model.decoder)
        self.encoder = self.stack(model.encoder, scaled_embeddings(model.encoder))
        self.decoder = self.stack(model.decoder, self.target_embeddings)
        self.output_layer: nn.Linear = model.decoder.output_projection
        self.output_projection = self.linear(self.output_layer)

    def pack_positions(self, source_length: int, target_length: int) -> None:
        """Extends the tables of positional embeddings to these numbers of tokens, if they are shorter."""
        with self._lock:
            for side, stack, length in (
                ("encoder", self.encoder, source_length),
                ("decoder", self.decoder, target_length),
            ):
                embed_positions = self._embed_positions[side]
                if embed_positions is None or self._position_counts.get(side, 0) >= length:
                    continue
                count = min(room_for(length), embed_positions.max_positions)
                tokens = torch.full((1, count), embed_positions.padding_idx + 1)
                # The previous table is not freed, because another thread may be translating with it.
                stack.positions = self.address(embed_positions(tokens)[0].float())
                self._position_counts[side] = count

    def stack(self, stack: Any, embeddings: Tensor) -> Structure:
        """The struct of an encoder or a decoder with these token embeddings."""
        layers = [self.layer(layer) for layer in stack.layers]
        return STRUCTS["stack"](
            layers=len(layers),
            width=embeddings.size(1),
            normalize_before=stack.layers[0].normalize_before,
            layer=cast(self.keep_alive((STRUCTS["layer"] * len(layers))(*layers)), c_void_p).value,
            embeddings=self.address(embeddings),
            embedding_norm=self.norm(stack.layernorm_embedding),
            final_norm=self.norm(stack.layer_norm),
        )

    def layer(self, layer: Any) -> Structure:
        """The struct of a layer of an encoder or a decoder."""
        cross_attention = STRUCTS["attention"]()
        if hasattr(layer, "encoder_attn"):
            cross_attention = self.attention(layer.encoder_attn, layer.encoder_attn_layer_norm)
        return STRUCTS["layer"](
            self_attention=self.attention(layer.self_attn, layer.self_attn_layer_norm),
            cross_attention=cross_attention,
            fc1=self.linear(layer.fc1),
            fc2=self.linear(layer.fc2),
            norm=self.norm(layer.final_layer_norm),
        )

    def attention(self, attention: Attention, norm: nn.LayerNorm) -> Structure:
        """The struct of an attention and the norm of its sub-layer."""
        fused, heads = attention.fused, attention.num_heads
        assert fused is not None
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        if attention.encoder_decoder_attention:
            projections = {"in_proj": [query], "k_proj": [key], "v_proj": [value]}
        else:
            projections = {"in_proj": [query, key, value]}
        struct = STRUCTS["attention"](
            heads=heads,
            kernel=1,
            scale=attention.scaling,
            out_proj=self.linear(attention.out_proj),
            norm=self.norm(norm),
            **{name: self.linear(*layers) for name, layers in projections.items()},
        )
        device = query.weight.device
        if fused.has_skip:
            struct.mix = self.address(by_head(heads, device, fused.own_weight, fused.previous_weight))
        if fused.conv is not None:
            assert fused.conv.bias is not None
            struct.kernel, struct.above, struct.left = fused.conv.kernel_size[0], fused.above, fused.left
            struct.weight, struct.bias = self.address(fused.conv.weight), self.address(fused.conv.bias)
            struct.beta = self.address(by_head(heads, device, fused.beta))
        return struct

    def linear(self, *layers: nn.Linear) -> Structure:
        """The struct of linear layers with the same input, whose outputs are side by side."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        struct, packed = pack_linear(weight, bias, self.bfloat16)
        self.keep_alive(packed)
        return struct

    def norm(self, norm: nn.LayerNorm | None) -> Structure:
        """The struct of a layer norm; its pointers are NULL if there is none."""
        if norm is None:
            return STRUCTS["norm"]()
        return STRUCTS["norm"](weight=self.address(norm.weight), bias=self.address(norm.bias), eps=norm.eps)

    def keep_alive(self, referenced: Any) -> Any:
        """Stores a reference, so that pointers to it stay valid as long as the model exists, and returns it."""
        self._referenced.append(referenced)
        return referenced

    def address(self, tensor: Tensor) -> int:
        """The address of a tensor's elements, which stays valid as long as the model exists."""
        return self.keep_alive(tensor.detach().contiguous()).data_ptr()


def scaled_embeddings(stack: Any) -> Tensor:
    """The token embeddings of an encoder or a decoder, (tokens, C), times their scale."""
    return (stack.embed_scale * stack.embed_tokens.weight).detach().contiguous()


def pack_linear(weight: Tensor, bias: Tensor | None, bfloat16: bool) -> tuple[Structure, list[Tensor]]:
    """The struct of a linear layer, and the tensors that it points to and that must outlive it.

    Args:
        weight: (outputs, inputs).
        bias: (outputs), or None.
    """
    outputs, inputs = weight.shape
    if bfloat16:
        pairs = F.pad(weight.bfloat16(), (0, inputs % 2, 0, -outputs % PANEL)).unflatten(1, (-1, 2))
        panels = pairs.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()
    else:
        panels = F.pad(weight, (0, 0, 0, -outputs % PANEL)).unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()
    struct = STRUCTS["linear"](
        inputs=inputs,
        outputs=outputs,
        weight=panels.data_ptr(),
        bias=None if bias is None else bias.data_ptr(),
    )
    return struct, [panels] if bias is None else [panels, bias]
