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
from ea_fairseq.attention.query_key import rotations
from ea_fairseq.kernels.arguments import by_head
from ea_fairseq.kernels.cpu.structs import STRUCTS
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from ea_fairseq.mechanisms.exclusive import ExclusiveAttention
from ea_fairseq.mechanisms.gated import GatedAttention
from ea_fairseq.mechanisms.sinks import SinkAttention
from ea_fairseq.mechanisms.value_residual import ValueResidualAttention

ACTIVATIONS = ("plain", "swiglu", "geglu")  # by the enum in translation.h
PANEL = 64  # outputs of a linear layer that are stored side by side, as in translation.h


class NativeModel:
    """The packed parameters of an encoder and a decoder.

    Args:
        model: a model without any :func:`~ea_fairseq.search.support.unsupported_reasons`.
        precision: of linear layers, float32, bfloat16 or int8.

    Attributes:
        encoder, decoder: structs of their parameters.
        vocabulary_sizes: number of source and of target tokens.
        output_weight, output_bias: of the layer that projects to the target vocabulary, (target tokens, C) and
            (target tokens,) or None, with the scale of logits.
        output_projection: its struct.
        target_embeddings: (target tokens, C), scaled.
    """

    def __init__(self, model: TransformerModelBase, precision: str = "float32"):
        self.precision = precision
        self._referenced: list[object] = []  # what the structs point to
        self._position_counts: dict[str, int] = {}
        self._lock = Lock()
        stacks = {"encoder": model.encoder, "decoder": model.decoder}
        self._embed_positions = {side: stack.embed_positions for side, stack in stacks.items()}
        self._rotated = {side: rotated_width(stack.layers[0].self_attn) for side, stack in stacks.items()}
        self.vocabulary_sizes = len(model.encoder.embed_tokens.weight), len(model.decoder.embed_tokens.weight)
        self.target_embeddings = scaled_embeddings(model.decoder)
        self.encoder = self.stack(model.encoder, scaled_embeddings(model.encoder))
        self.decoder = self.stack(model.decoder, self.target_embeddings)
        self.output_weight = (model.decoder.logit_scale * model.decoder.output_projection.weight).detach()
        self.output_bias = model.decoder.output_projection.bias
        self.output_projection = self.pack(self.output_weight, self.output_bias)

    def pack_positions(self, source_length: int, target_length: int) -> None:
        """Extends the tables of positional embeddings and rotations to these numbers of tokens, if they are shorter."""
        with self._lock:
            for side, stack, length in (
                ("encoder", self.encoder, source_length),
                ("decoder", self.decoder, target_length),
            ):
                if self._position_counts.get(side, 0) >= length:
                    continue
                # The previous tables are not freed, because another thread may be translating with them.
                count, embed_positions = room_for(length), self._embed_positions[side]
                if embed_positions is not None:
                    count = min(count, embed_positions.max_positions)
                    tokens = torch.full((1, count), embed_positions.padding_idx + 1)
                    stack.positions = self.address(embed_positions(tokens)[0].float())
                if self._rotated[side]:
                    stack.rotations = self.address(rotations(torch.arange(count), self._rotated[side]).float())
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
            activation=ACTIVATIONS.index(layer.options.ffn),
            fc1=self.linear(layer.fc1),
            fc2=self.linear(layer.fc2),
            norm=self.norm(layer.final_layer_norm),
        )

    def attention(self, attention: Attention, norm: nn.LayerNorm) -> Structure:
        """The struct of an attention and the norm of its sub-layer."""
        fused, heads = attention.fused or FusedLogits(), attention.num_heads
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        if attention.encoder_decoder_attention:
            projections = {"in_proj": [query], "k_proj": [key], "v_proj": [value]}
        else:
            projections = {"in_proj": [query, key, value]}
        struct = STRUCTS["attention"](
            heads=heads,
            kernel=1,
            scale=attention.scaling,
            gates=self.gates(attention),
            is_exclusive=isinstance(attention, ExclusiveAttention),
            out_proj=self.linear(attention.out_proj),
            **self.head_norms(attention),
            **self.word_weights(attention),
            norm=self.norm(norm),
            **{name: self.linear(*layers) for name, layers in projections.items()},
        )
        device = query.weight.device
        if isinstance(attention, SinkAttention):
            struct.sinks = self.address(attention.sink_logits(query.weight))
        if isinstance(attention, ValueResidualAttention) and attention.lambdas is not None:
            struct.value_weights = self.address(attention.lambdas)
        if fused.has_skip:
            struct.mix = self.address(by_head(heads, device, fused.own_weight, fused.previous_weight))
        if fused.conv is not None:
            assert fused.conv.bias is not None
            struct.kernel, struct.above, struct.left = fused.conv.kernel_size[0], fused.above, fused.left
            struct.weight, struct.bias = self.address(fused.conv.weight), self.address(fused.conv.bias)
            struct.beta = self.address(by_head(heads, device, fused.beta))
        return struct

    def word_weights(self, attention: Attention) -> dict[str, Structure]:
        """The structs of what computes the logits of alpha and beta, if these depend on words."""
        learned = attention.learned if isinstance(attention, EvolvingAttention) else None
        if learned is None:
            return {}
        parts = {
            "word_alpha": (learned.alpha_input, learned.alpha_logits),
            "word_beta": (learned.beta_input, learned.beta_logits),
        }
        return {
            name: self.pack(by_word.weight.flatten(0, 1), logits.flatten())
            for name, (by_word, logits) in parts.items()
            if by_word is not None and logits is not None
        }

    def gates(self, attention: Attention) -> Structure:
        """The struct of a gated attention's gates; without a weight for others."""
        if not isinstance(attention, GatedAttention):
            return STRUCTS["linear"]()
        return self.pack(attention.gates.weight.flatten(0, 1), None)

    def head_norms(self, attention: Attention) -> dict[str, Structure]:
        """The structs of the norms of queries and keys."""
        norms = {} if attention.query_key is None else dict(attention.query_key.norms.items())
        return {"query_norm": self.norm(norms.get("q")), "key_norm": self.norm(norms.get("k"))}

    def linear(self, *layers: nn.Linear) -> Structure:
        """The struct of linear layers with the same input, whose outputs are side by side."""
        weight = torch.cat([layer.weight for layer in layers])
        return self.pack(weight, None if layers[0].bias is None else torch.cat([layer.bias for layer in layers]))

    def pack(self, weight: Tensor, bias: Tensor | None) -> Structure:
        """The struct of a linear layer with a weight (outputs, inputs) and a bias (outputs) or None."""
        struct, packed = pack_linear(weight, bias, self.precision)
        self.keep_alive(packed)
        return struct

    def norm(self, norm: Any) -> Structure:
        """The struct of a norm; its pointers are NULL if there is none."""
        if norm is None:
            return STRUCTS["norm"]()
        is_rms, bias = isinstance(norm, nn.RMSNorm), getattr(norm, "bias", None)
        pointers = {"weight": self.address(norm.weight), "bias": None if bias is None else self.address(bias)}
        return STRUCTS["norm"](**pointers, is_rms=is_rms, eps=norm.eps)

    def keep_alive(self, referenced: Any) -> Any:
        """Stores a reference, so that pointers to it stay valid as long as the model exists, and returns it."""
        self._referenced.append(referenced)
        return referenced

    def address(self, tensor: Tensor) -> int:
        """The address of a tensor's elements, which stays valid as long as the model exists."""
        return self.keep_alive(tensor.detach().contiguous()).data_ptr()


def rotated_width(attention: Attention) -> int:
    """The width of a head's query and key if they are rotated, else 0."""
    return attention.key_dim if attention.query_key is not None and attention.query_key.rotates else 0


def scaled_embeddings(stack: Any) -> Tensor:
    """The token embeddings of an encoder or a decoder, (tokens, C), times their scale."""
    return (stack.embed_scale * stack.embed_tokens.weight).detach().contiguous()


def pack_linear(weight: Tensor, bias: Tensor | None, precision: str) -> tuple[Structure, list[Tensor]]:
    """The struct of a linear layer, and the tensors that it points to and that must outlive it.

    Args:
        weight: (outputs, inputs).
        bias: (outputs), or None.
        precision: float32, bfloat16 or int8.
    """
    outputs, inputs = weight.shape
    tensors = {} if bias is None else {"bias": bias}
    weight = F.pad(weight, (0, 0, 0, -outputs % PANEL))
    if precision == "int8":
        scales = weight.abs().amax(dim=1) / 127  # an output of zeros has any
        weight = (weight / scales.clamp(min=1e-30).unsqueeze(1)).round().to(torch.int8)
        tensors |= {"scales": scales, "offsets": 128 * weight.sum(dim=1, dtype=torch.int32)}
    elif precision == "bfloat16":
        weight = weight.bfloat16()
    group = 4 // weight.element_size()  # inputs in 4 bytes
    if group > 1:
        weight = F.pad(weight, (0, -inputs % (16 * group)))
    tensors["weight"] = weight.view(-1, PANEL, weight.size(1) // group, group).transpose(1, 2).contiguous()
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    return STRUCTS["linear"](inputs=inputs, outputs=outputs, **addresses), list(tensors.values())
