"""Which models, and which options of a search, native code supports."""

from collections.abc import Iterator
from types import NoneType
from typing import Any

import torch.nn.functional as F
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules import FairseqDropout, LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.kernels import dispatch
from ea_fairseq.mechanisms.evolving_outputs import EvolvingExclusiveAttention, EvolvingGatedAttention
from ea_fairseq.mechanisms.exclusive import ExclusiveAttention
from ea_fairseq.mechanisms.gated import GatedAttention
from ea_fairseq.mechanisms.sinks import SinkAttention
from ea_fairseq.mechanisms.value_residual import ValueResidualAttention
from ea_fairseq.models.decoder import MechanismDecoder
from ea_fairseq.models.encoder import MechanismEncoder
from ea_fairseq.models.layer import MechanismDecoderLayer, MechanismEncoderLayer

# Classes whose outputs native translation computes, but no other kernel.
WITH_OUTPUTS = (GatedAttention, ExclusiveAttention, EvolvingGatedAttention, EvolvingExclusiveAttention)
POSITIONS = (SinusoidalPositionalEmbedding, LearnedPositionalEmbedding, NoneType)
MAX_INPUTS = 1 << 17  # of a linear layer, whose products native code sums in 32 bits and rounds on a thread's stack
OTHER_LAYERS = "a linear layer or a layer norm is not of torch's own class"


def unsupported_reasons(model: TransformerModelBase) -> Iterator[str]:
    """The reasons why native code cannot translate with a Transformer, as clauses that follow "because"."""
    encoder, decoder = model.encoder, model.decoder
    if not has_supported_classes(model):
        yield "a part of the model is of a derived class"
    if model.training:
        yield "the model is in training mode"
    if not all(map(dispatch.is_native, model.parameters())):
        yield "parameters are not float32 on a CPU, or native code is not available"
    if decoder.adaptive_softmax is not None or type(getattr(decoder, "output_projection", None)) is not nn.Linear:
        yield "the output projection is not a linear layer"
    if decoder.project_in_dim is not None or decoder.project_out_dim is not None:
        yield "the embeddings and the decoder differ in width"
    for stack in (encoder, decoder):
        if stack.connections.name != "residual":
            yield f"native code does not support --connections {stack.connections.name}"
        if stack.quant_noise is not None:
            yield "weights are quantized"
        if type(stack.embed_tokens) is not nn.Embedding or not len(stack.layers):
            yield "the encoder or the decoder has no layers, or embeddings of a derived class"
        if not all(map(is_supported_norm, (stack.layernorm_embedding, stack.layer_norm))):
            yield OTHER_LAYERS
    if any(layer.need_attn for layer in decoder.layers):
        yield "attention weights are requested"
    if any(map(any, map(hooks_of, model.modules()))):
        yield "a module has a hook"
    for module in model.modules():
        if isinstance(module, FairseqDropout) and module.p > 0 and module.apply_during_inference:
            yield "dropout is retained"
    for layer in (*encoder.layers, *decoder.layers):
        yield from unsupported_reasons_of_layer(layer)


def has_supported_classes(model: TransformerModelBase) -> bool:
    """Whether generation calls the forward functions of this package and of fairseq, not those of a derived class."""
    stacks = (
        (model.encoder, MechanismEncoder, MechanismEncoderLayer),
        (model.decoder, MechanismDecoder, MechanismDecoderLayer),
    )
    return type(model).get_normalized_probs is TransformerModelBase.get_normalized_probs and all(
        type(stack) is stack_class
        and type(stack.embed_positions) in POSITIONS
        and all(type(layer) is layer_class for layer in stack.layers)
        for stack, stack_class, layer_class in stacks
    )


def is_supported_norm(module: nn.Module | None) -> bool:
    """Whether a norm is torch's layer norm or our root mean square norm, with a weight, or there is none."""
    return module is None or (type(module) in (nn.LayerNorm, RMSNorm) and module.weight is not None)


def hooks_of(module: nn.Module) -> tuple[dict, dict]:
    """The hooks that read or replace a module's inputs and outputs."""
    return module._forward_pre_hooks, module._forward_hooks


def unsupported_reasons_of_layer(layer: Any) -> Iterator[str]:
    """The reasons why native code cannot compute a layer of the encoder or the decoder."""
    if layer.options.ffn == "plain" and layer.activation_fn is not F.relu:
        yield "the activation of the feed-forward network is not ReLU"
    elif layer.branch is not None:
        yield "a layer has a branch parallel to self-attention"
    norms = [module for name, module in layer.named_children() if name.endswith("layer_norm")]
    if not all(map(is_supported_norm, norms)) or not all(
        type(linear) is nn.Linear for linear in (layer.fc1, layer.fc2)
    ):
        yield OTHER_LAYERS
    elif max(layer.fc1.in_features, layer.fc2.in_features) > MAX_INPUTS:
        yield f"a linear layer has more than {MAX_INPUTS:,} inputs"
    attentions = [layer.self_attn, *([layer.encoder_attn] if hasattr(layer, "encoder_attn") else [])]
    for attention in attentions:
        if attention is None:
            yield "a layer has no encoder-decoder attention"
        elif not isinstance(attention, Attention):
            yield f"an attention is a {type(attention).__name__}"
        elif not is_supported(attention):
            yield f"native code does not support {attention.title} with these options"
        elif attention.recorded is not None:
            yield "attention maps are being recorded"


def is_supported(attention: Attention) -> bool:
    """Whether kernels compute everything that an attention computes between its projections."""
    attention_class = type(attention)
    projects = all(type(getattr(attention, f"{part}_proj")) is nn.Linear for part in ("q", "k", "v", "out"))
    return (
        projects
        and attention_class.receive == Attention.receive
        and attention_class.project in (Attention.project, ValueResidualAttention.project)
        and attention.dot_product_only
        and attention.convolutions is None
        and attention.width("q") == attention.width("v") == attention.embed_dim
        and (attention.fused is not None or attention_class is SinkAttention)
        and (attention.can_fuse_values or attention_class in WITH_OUTPUTS)
        and attention.bias_k is None
        and not attention.add_zero_attn
    )


def unsupported_option(
    generator: SequenceGenerator, sample: dict, prefix_tokens: Tensor | None, constraints: Tensor | None
) -> str | None:
    """A clause that names what native search does not support of a search, or None."""
    source = sample["net_input"].get("src_tokens")
    unsupported = {
        "other kinds of search": type(generator) is not SequenceGenerator or type(generator.search) is not BeamSearch,
        "these prefix tokens": has_unsupported_prefix(generator, source, prefix_tokens),
        "constraints": constraints is not None,
        "a language model": generator.lm_model is not None,
        "a beam as wide as the vocabulary": 2 * generator.beam_size + 3 > generator.vocab_size,
        "sources that are not tokens": source is None,
        "--match-source-len for sentences this long": exceeds_source_length_limit(generator, sample["net_input"]),
        "empty sentences": has_empty_sentence(source, generator.pad),
        "sentences longer than the positional embeddings": exceeds_positions(generator, source),
    }
    return next(
        (f"native search does not support {option}" for option, is_used in unsupported.items() if is_used), None
    )


def has_unsupported_prefix(generator: SequenceGenerator, source: Tensor | None, prefix: Tensor | None) -> bool:
    """Whether prefixes (B, P) do not match the sentences, or end a sentence after a free position, which fairseq's
    search fails at."""
    if prefix is None or source is None:
        return False
    follows_free_position = prefix.eq(generator.pad).cumsum(dim=-1) > 0
    return len(prefix) != len(source) or bool((prefix.eq(generator.eos) & follows_free_position).any())


def has_empty_sentence(source: Tensor | None, padding: int) -> bool:
    """Whether one of the sentences (B, S) is all padding, or the batch is empty."""
    return source is not None and not (len(source) and source.ne(padding).any(dim=1).all())


def exceeds_positions(generator: SequenceGenerator, source: Tensor | None) -> bool:
    """Whether sentences (B, S) or their hypotheses may be longer than the tables of positional embeddings."""
    if source is None:
        return False
    model, length = generator.model.single_model, source.size(1)
    lengths = (model.encoder, length), (model.decoder, max_target_length(generator, length) + 1)
    tables = ((stack.embed_positions, length) for stack, length in lengths if stack.embed_positions is not None)
    return any(length > table.max_positions for table, length in tables)


def exceeds_source_length_limit(generator: SequenceGenerator, net_input: dict[str, Tensor]) -> bool:
    """Whether ``--match-source-len`` allows targets that are longer than the decoder's positions."""
    if not generator.match_source_len or "src_tokens" not in net_input:
        return False
    return bool((source_lengths(generator, net_input) >= generator.max_len).any())


def max_target_length(generator: SequenceGenerator, source_length: int) -> int:
    """The maximum number of tokens of a hypothesis, without the end of sentence."""
    return min(int(generator.max_len_a * source_length + generator.max_len_b), generator.max_len - 1)


def source_lengths(generator: SequenceGenerator, net_input: dict[str, Tensor]) -> Tensor:
    """The lengths (B) that ``--match-source-len`` limits targets to, as fairseq counts them: the collater's, or else
    the number of tokens without the end of sentence."""
    source = net_input["src_tokens"]
    return net_input.get("src_lengths", (source.ne(generator.eos) & source.ne(generator.pad)).sum(dim=1))
