"""What models that are an encoder alone cost, part by part: by formula, counted, and as published ones are counted."""

import copy
from collections import Counter

import torch
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerConfig
from torch import nn

from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost import (
    CLASSIFICATION_HEAD,
    EMBEDDINGS,
    ENCODER,
    LM_HEAD,
    UNUSED_POSITIONS,
    Pass,
    mechanism_group,
    traced_macs,
)
from ea_fairseq.analysis.cost_formula import (
    ACTIVATION_MACS,
    Part,
    Side,
    branch_parts,
    encoder_parts,
    mechanism_parts,
    refuse_unknown,
)
from ea_fairseq.blocks.convolved_tokens import ConvolvedTokens
from ea_fairseq.count import Count, linear
from ea_fairseq.models.classifier import SentenceClassifier
from ea_fairseq.models.encoder_options import EncoderOptions
from ea_fairseq.models.roberta import MechanismRoberta

TOKENS, POOLER, LAST = "tokens", "pooler", "linear layer to classes"


def attentions(model: RobertaModel, length: int) -> dict[str, AttentionCost]:
    """That of the encoder; without any where convolutions take the place of attentions."""
    found = [layer.self_attn for layer in model.encoder.sentence_encoder.layers]
    return {"encoder": AttentionCost.of([one for one in found if not isinstance(one, ConvolvedTokens)], length, length)}


def parts(model: RobertaModel, sentence: Side) -> list[Part]:
    """The parts of a model with classification heads, for one sentence without padding.

    Raises:
        UserError: naming the flag of an option that has no formula here.
    """
    cfg, kinds = TransformerConfig.from_namespace(model.args), attentions(model, sentence.length)
    refuse_unknown(cfg)
    ours, stack = isinstance(model, MechanismRoberta), model.encoder.sentence_encoder
    return [
        *embedding_parts(model, cfg, sentence),
        *layer_parts(model, cfg, kinds["encoder"], masked=not ours),
        *(mechanism_parts(mechanism_group(model.family.attention), kinds) if ours and kinds["encoder"].layers else ()),
        *convolution_parts(model, sentence.length),
        *branch_parts({"encoder": (stack, sentence.length)}),
        *lm_head_parts(model, cfg, sentence),
        *classification_head_parts(model, cfg),
    ]


def embedding_size(model: RobertaModel) -> int:
    """N numbers of an embedding."""
    return model.encoder.sentence_encoder.embed_tokens.embedding_dim


def embedding_parts(model: RobertaModel, cfg: TransformerConfig, sentence: Side) -> list[Part]:
    """Tables are looked up without a product; scaling what is found, and counting positions, takes some."""
    options, size = EncoderOptions.from_namespace(model.args), embedding_size(model)
    found = [Part(EMBEDDINGS, TOKENS, Count(sentence.vocabulary * size, sentence.length * size))]
    if not cfg.no_token_positional_embeddings:
        rows = (model.args.max_positions + UNUSED_POSITIONS) * cfg.encoder.learned_pos
        found.append(Part(EMBEDDINGS, "positions", Count(rows * size, sentence.length)))
    return found + [Part(EMBEDDINGS, "segments", Count(options.segments * size))] * bool(options.segments)


def layer_parts(model: RobertaModel, cfg: TransformerConfig, attention: AttentionCost, masked: bool) -> list[Part]:
    """The layers and what is between them and the embeddings."""
    size, width, words = embedding_size(model), cfg.encoder.embed_dim, attention.queries
    of_layers = copy.copy(cfg)
    of_layers.layernorm_embedding = False  # it has the width of embeddings
    found = [part for part in encoder_parts(of_layers, attention, masked) if part.count != Count()]
    if cfg.layernorm_embedding:
        found.append(Part(ENCODER, "layer norm of embeddings", Count(2 * size, words * size)))
    if size != width:
        found.append(Part(ENCODER, "embeddings to layers", linear(size, width, words)))
    if (dense := getattr(model.encoder.sentence_encoder, "dense", None)) is not None:
        connections = (linear((i + 2) * width, width, words) for i in range(len(dense)))
        found.append(Part(ENCODER, "dense connections", sum(connections, Count())))
    return found


def convolution_parts(model: RobertaModel, words: int) -> list[Part]:
    """The convolutions that take the place of self-attentions, and the projections of their output."""
    found = [layer.self_attn for layer in model.encoder.sentence_encoder.layers]
    if not all(isinstance(one, ConvolvedTokens) for one in found):
        return []
    kernels = sum((one.cost(words) for one in found), Count())
    projections = sum((linear(one.width, one.width, words) for one in found), Count())
    return [
        Part(ENCODER, "projections of convolved tokens", projections),
        Part(mechanism_group(ConvolvedTokens), "encoder", kernels),
    ]


def lm_head_parts(model: RobertaModel, cfg: TransformerConfig, sentence: Side) -> list[Part]:
    """What scores the words at masked places; the table may be that of the embeddings."""
    if model.encoder.lm_head is None:
        return []
    size, words = embedding_size(model), sentence.length
    activation = Count(macs=ACTIVATION_MACS.get(cfg.activation_fn, 0) * words * size)
    untied = getattr(model.args, "untie_weights_roberta", False)
    table = Count(sentence.vocabulary * (size * untied + 1), sentence.vocabulary * size * words)
    return [
        Part(LM_HEAD, "dense layer", linear(cfg.encoder.embed_dim, size, words) + activation),
        Part(LM_HEAD, "layer norm", Count(2 * size, words * size)),
        Part(LM_HEAD, "output projection", table, None if untied else TOKENS),
    ]


def classification_head_parts(model: RobertaModel, cfg: TransformerConfig) -> list[Part]:
    """Of each head: the pooler, a dense layer of the first token, where there is one, and a layer to the classes."""
    found, width = [], cfg.encoder.embed_dim
    for head in model.classification_heads.values():
        inner, last = width, head
        if not isinstance(head, nn.Linear):
            inner, last = head.dense.out_features, head.out_proj
            found.append(Part(CLASSIFICATION_HEAD, POOLER, linear(width, inner, 1)))
        found.append(Part(CLASSIFICATION_HEAD, LAST, linear(inner, last.out_features, 1)))
    return found


def count_macs(model: RobertaModel, length: int) -> Counter[str]:
    """Multiply-accumulates of one sentence in evaluation mode by torch's operator: the encoder once, and all heads."""
    tokens = torch.full((1, length), model.encoder.dictionary.unk())
    encoder = traced_macs(Pass(model, features_only=True), tokens)
    passes = [{"classification_head_name": name} for name in model.classification_heads]
    passes += [{}] if model.encoder.lm_head is not None else []
    heads = (traced_macs(Pass(model, **options), tokens) - encoder for options in passes)
    return sum(heads, encoder)


def layout(model: RobertaModel) -> dict[str, int]:
    """In what fairseq's layout differs from that of published models, in words, and the parameters to add to it.

    With segments it is compared with BERT's, without any with RoBERTa's, which has fairseq's rows of positions.
    """
    size = embedding_size(model)
    if isinstance(model, SentenceClassifier):
        return {}
    if not EncoderOptions.from_namespace(model.args).segments:
        return {"fairseq lacks RoBERTa's row of token types": size}
    if model.encoder.sentence_encoder.embed_positions is None:
        return {}
    return {f"fairseq has {UNUSED_POSITIONS} rows of positions more than BERT": -UNUSED_POSITIONS * size}


def as_published(model: RobertaModel, found: list[Part]) -> dict[str, int]:
    """Parameters as papers count them, by which do.

    Args:
        found: the model's parts.
    """
    if isinstance(model, SentenceClassifier):
        return {"PA: without embeddings of words": total(found, without=(TOKENS,)).parameters}
    differences = sum(layout(model).values())
    heads = total([part for part in found if part.group in (LM_HEAD, CLASSIFICATION_HEAD)]).parameters
    encoder = total(found).parameters - heads + differences
    pooler = total([part for part in found if part.name == POOLER]).parameters
    lm_head = total([part for part in found if part.group == LM_HEAD]).parameters
    return {
        "BERT, EA: with pooler, without language model's head": encoder + pooler,
        "COMP: with language model's head, without pooler": encoder + lm_head,
    }


def total(found: list[Part], without: tuple[str, ...] = ()) -> Count:
    """The sum of parts but for some, by their names."""
    return sum((part.count for part in found if part.name not in without), Count())
