"""What keeps native code from translating with a Transformer of ours, and when to ask again."""

from collections.abc import Iterator
from types import NoneType
from typing import Any
from weakref import ref

import torch.nn.functional as F
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules import FairseqDropout, LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.kernels import dispatch
from ea_fairseq.models.layer import MechanismDecoderLayer, MechanismEncoderLayer
from ea_fairseq.models.stack import MechanismDecoder, MechanismEncoder

POSITIONS = (SinusoidalPositionalEmbedding, LearnedPositionalEmbedding, NoneType)
STEPS = ("receive", "reweigh", "values")  # of a mechanism, which kernels do not know
OTHER_LAYERS = "a linear layer or a norm is none of torch's"


class Watch:
    """Tells whether anything has changed that a packed model depends on, without a walk through its modules.

    Args:
        model: which may go while this stays.
    """

    def __init__(self, model: TransformerModelBase):
        self._model, self._parameters = ref(model), list(model.parameters())
        self._others = [module for module in model.modules() if module is not model]
        self._attentions = [module for module in self._others if isinstance(module, Attention)]
        self._decoder_layers = list(model.decoder.layers)
        self._dropouts = [module for module in self._others if isinstance(module, FairseqDropout)]

    def state(self) -> list[object]:
        """Something that is equal as long as parameters, hooks and modes of the modules are.

        A change of a parameter through ``.data``, which torch does not count, is not seen.
        """
        modules: list[Any] = [self._model(), *self._others]
        return [
            dispatch.backend,
            [tuple(map(id, (*module._modules.values(), *module._parameters.values()))) for module in modules],
            [(parameter.data_ptr(), version(parameter)) for parameter in self._parameters],
            [(module.training, *map(len, hooks_of(module))) for module in modules],
            [layer.need_attn for layer in self._decoder_layers],
            [(settings_of(attention), attention.recorded is None) for attention in self._attentions],
            [dropout.apply_during_inference for dropout in self._dropouts],
        ]


def settings_of(attention: Attention) -> tuple | None:
    """What kernels compute of an attention's logits, but for its parameters."""
    fused = attention.fused
    return None if fused is None else fused.settings


def is_norm(module: nn.Module | None) -> bool:
    """Whether a norm is torch's, with its parameters, or there is none."""
    return module is None or (type(module) is nn.LayerNorm and None not in (module.weight, module.bias))


def hooks_of(module: nn.Module) -> tuple[dict, dict]:
    """What is called with what a module reads and returns."""
    return module._forward_pre_hooks, module._forward_hooks


def version(parameter: Tensor) -> int:
    """How often a parameter was changed in place, which torch does not count in inference mode."""
    return 0 if parameter.is_inference() else parameter._version


def obstacles(model: TransformerModelBase) -> Iterator[str]:
    """What keeps native code from translating with a Transformer of ours, in words."""
    encoder, decoder = model.encoder, model.decoder
    if not has_known_classes(model):
        yield "a part of the model has a class of its own"
    if model.training:
        yield "the model is being trained"
    if not all(map(dispatch.is_native, model.parameters())):
        yield "parameters are not float32 on a CPU, or there is no native code"
    if decoder.adaptive_softmax is not None or type(getattr(decoder, "output_projection", None)) is not nn.Linear:
        yield "the output projection is not a linear layer"
    if decoder.project_in_dim is not None or decoder.project_out_dim is not None:
        yield "embeddings have another width than the decoder"
    for stack in (encoder, decoder):
        if stack.quant_noise is not None:
            yield "weights are quantized"
        if type(stack.embed_tokens) is not nn.Embedding or not len(stack.layers):
            yield "it has no embeddings or no layers"
        if not all(map(is_norm, (stack.layernorm_embedding, stack.layer_norm))):
            yield OTHER_LAYERS
    if any(layer.need_attn for layer in decoder.layers):
        yield "attention is asked for"
    if any(map(any, map(hooks_of, model.modules()))):
        yield "a module has a hook"
    for module in model.modules():
        if isinstance(module, FairseqDropout) and module.p > 0 and module.apply_during_inference:
            yield "dropout is retained"
    for layer in (*encoder.layers, *decoder.layers):
        yield from obstacles_in(layer)


def has_known_classes(model: TransformerModelBase) -> bool:
    """Whether what generation calls are functions of ours and fairseq's, and not of a class that derives from those."""
    stacks = (
        (model.encoder, MechanismEncoder, MechanismEncoderLayer),
        (model.decoder, MechanismDecoder, MechanismDecoderLayer),
    )
    return type(model).get_normalized_probs is TransformerModelBase.get_normalized_probs and all(
        type(stack) is kind
        and type(stack.embed_positions) in POSITIONS
        and all(type(layer) is kind_of_layer for layer in stack.layers)
        for stack, kind, kind_of_layer in stacks
    )


def obstacles_in(layer: nn.Module) -> Iterator[str]:
    """What keeps native code from one layer."""
    if layer.activation_fn is not F.relu:
        yield "the activation of the feed-forward network is no ReLU"
    elif layer.branch is not None:
        yield "a branch stands beside self-attention"
    norms = [module for name, module in layer.named_children() if name.endswith("layer_norm")]
    if not all(map(is_norm, norms)) or not all(type(linear) is nn.Linear for linear in (layer.fc1, layer.fc2)):
        yield OTHER_LAYERS
    attentions = [layer.self_attn, *([layer.encoder_attn] if hasattr(layer, "encoder_attn") else [])]
    for attention in attentions:
        if attention is None:
            yield "a layer has no encoder-decoder attention"
        elif not isinstance(attention, Attention):
            yield f"an attention is a {type(attention).__name__}"
        elif not knows(attention):
            yield f"kernels do not know {attention.title} as it is here"
        elif attention.recorded is not None:
            yield "attention maps are being recorded"


def knows(attention: Attention) -> bool:
    """Whether kernels compute all that an attention does between its projections."""
    kind = type(attention)
    projects = all(type(getattr(attention, f"{part}_proj")) is nn.Linear for part in ("q", "k", "v", "out"))
    return (
        projects
        and (kind.receive, kind.project) == (Attention.receive, Attention.project)
        and attention.has_no_extra_terms
        and attention.fused is not None
        and attention.can_fuse_values
        and attention.bias_k is None
        and not attention.add_zero_attn
    )
