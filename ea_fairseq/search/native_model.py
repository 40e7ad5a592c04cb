"""A Transformer as native code for CPUs translates with it: its parameters packed, by structs that point to them."""

from ctypes import c_void_p, cast
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
from ea_fairseq.models.layer import MechanismLayer
from ea_fairseq.models.stack import MechanismStack

PANEL = 64  # of translation.h
AttentionFields, LayerFields, LinearFields, NormFields, StackFields = (
    STRUCTS[name] for name in ("attention", "layer", "linear", "norm", "stack")
)


class NativeModel:
    """The packed parameters of an encoder and a decoder; ``symbols`` is how many tokens each knows.

    Args:
        model: one that :func:`~ea_fairseq.search.native_obstacles.obstacles` have nothing against.
        bfloat16: whether linear layers multiply in bfloat16.
    """

    def __init__(self, model: TransformerModelBase, bfloat16: bool = False):
        self.bfloat16 = bfloat16
        self._kept: list[object] = []  # what the structs point to
        self._positions: dict[str, int] = {}  # how many there are
        self._lock = Lock()
        self._embed_positions = {"encoder": model.encoder.embed_positions, "decoder": model.decoder.embed_positions}
        self.encoder, self.decoder = self.stack(model.encoder, "encoder"), self.stack(model.decoder, "decoder")
        self.symbols = len(model.encoder.embed_tokens.weight), len(model.decoder.embed_tokens.weight)
        self.output_projection: nn.Linear = model.decoder.output_projection
        self.vocabulary = self.linear(self.output_projection)

    def make_positions(self, source: int, target: int) -> None:
        """Lets the structs know the positions of so many source and target words."""
        with self._lock:
            for side, fields, count in (("encoder", self.encoder, source), ("decoder", self.decoder, target)):
                embed_positions = self._embed_positions[side]
                if embed_positions is None or self._positions.get(side, 0) >= count:
                    continue
                count = min(room_for(count), embed_positions.max_positions)
                words = torch.full((1, count), embed_positions.padding_idx + 1)
                # Those of before stay, for another thread may be translating with them.
                fields.positions = self.keep(embed_positions(words)[0].detach().float().contiguous()).data_ptr()
                self._positions[side] = count

    def stack(self, stack: MechanismStack, side: str) -> StackFields:
        """An encoder or a decoder."""
        layers = [self.layer(layer, side) for layer in stack.layers]
        embeddings = self.keep((stack.embed_scale * stack.embed_tokens.weight).detach().contiguous())
        if side == "decoder":
            self.target_embeddings = embeddings
        fields = StackFields(
            layers=len(layers),
            width=embeddings.size(1),
            normalize_before=stack.layers[0].normalize_before,
            layer=cast(self.keep((LayerFields * len(layers))(*layers)), c_void_p).value,
            embeddings=embeddings.data_ptr(),
            embedding_norm=self.norm(stack.layernorm_embedding),
            final_norm=self.norm(stack.layer_norm),
        )
        return fields

    def layer(self, layer: MechanismLayer, side: str) -> LayerFields:
        """A layer of an encoder or a decoder."""
        cross = AttentionFields()
        if side == "decoder":
            cross = self.attention(layer.encoder_attn, layer.encoder_attn_layer_norm)
        return LayerFields(
            self_attention=self.attention(layer.self_attn, layer.self_attn_layer_norm),
            cross_attention=cross,
            up=self.linear(layer.fc1),
            down=self.linear(layer.fc2),
            norm=self.norm(layer.final_layer_norm),
        )

    def attention(self, attention: Attention, norm: nn.LayerNorm) -> AttentionFields:
        """An attention with the norm of its sub-layer."""
        fused, query = attention.fused, attention.q_proj
        heads, device = attention.num_heads, query.weight.device
        if attention.encoder_decoder_attention:
            names = {"input": [query], "key": [attention.k_proj], "value": [attention.v_proj]}
        else:
            names = {"input": [query, attention.k_proj, attention.v_proj]}
        fields = AttentionFields(
            heads=heads,
            kernel=1,
            scale=attention.scaling,
            output=self.linear(attention.out_proj),
            norm=self.norm(norm),
            **{name: self.linear(*layers) for name, layers in names.items()},
        )
        if fused.has_skip:
            fields.mix = self.keep_tensor(by_head(heads, device, fused.own_weight, fused.previous_weight))
        if fused.conv is not None:
            fields.kernel, fields.above, fields.left = fused.conv.kernel_size[0], fused.above, fused.left
            fields.weight, fields.bias = map(self.keep_tensor, (fused.conv.weight, fused.conv.bias))
            fields.beta = self.keep_tensor(by_head(heads, device, fused.beta))
        return fields

    def linear(self, *layers: nn.Linear) -> LinearFields:
        """Linear layers of the same input, their outputs side by side."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        fields, packed = pack(weight, bias, self.bfloat16)
        self.keep(packed)
        return fields

    def norm(self, norm: nn.LayerNorm | None) -> NormFields:
        """A layer norm, or none."""
        if norm is None:
            return NormFields()
        weight, bias = map(self.keep_tensor, (norm.weight, norm.bias))
        return NormFields(weight=weight, bias=bias, eps=norm.eps)

    def keep(self, kept: Any) -> Any:
        """The same; keeps a reference so that pointers to it stay valid."""
        self._kept.append(kept)
        return kept

    def keep_tensor(self, tensor: Tensor) -> int:
        """The address of its elements, which stay where they are as long as the model is there."""
        return self.keep(tensor.detach().contiguous()).data_ptr()


def pack(weight: Tensor, bias: Tensor | None, bfloat16: bool) -> tuple[LinearFields, list[Tensor]]:
    """A linear layer of a weight (outputs, inputs) and a bias (outputs), and the tensors that it points to."""
    outputs, inputs = weight.shape
    if bfloat16:
        pairs = F.pad(weight.bfloat16(), (0, inputs % 2, 0, -outputs % PANEL)).unflatten(1, (-1, 2))
        panels = pairs.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()
    else:
        panels = F.pad(weight, (0, 0, 0, -outputs % PANEL)).unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()
    fields = LinearFields(
        inputs=inputs,
        outputs=outputs,
        weight=panels.data_ptr(),
        bias=None if bias is None else bias.data_ptr(),
    )
    return fields, [panels] if bias is None else [panels, bias]
