"""What models that are an encoder alone cost: counted, and as published ones are counted."""

from collections import Counter

import torch
from fairseq.models.roberta import RobertaModel

from ea_fairseq.analysis.cost import UNUSED_POSITIONS, Pass, traced_macs
from ea_fairseq.analysis.parts import CLASSIFICATION_HEAD, LM_HEAD, POOLER, TOKENS, parts, total
from ea_fairseq.models.classifier import SentenceClassifier
from ea_fairseq.models.encoder_options import EncoderOptions


def count_macs(model: RobertaModel, length: int) -> Counter[str]:
    """Multiply-accumulates of one sentence in evaluation mode: the encoder once, and all heads."""
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
    size = model.encoder.sentence_encoder.embed_tokens.embedding_dim
    if isinstance(model, SentenceClassifier):
        return {}
    if not EncoderOptions.from_namespace(model.args).segments:
        return {"fairseq lacks RoBERTa's row of token types": size}
    if model.encoder.sentence_encoder.embed_positions is None:
        return {}
    return {f"fairseq has {UNUSED_POSITIONS} rows of positions more than BERT": -UNUSED_POSITIONS * size}


def as_published(model: RobertaModel) -> dict[str, int]:
    """Parameters as papers count them, by which do."""
    found = parts(model)
    if isinstance(model, SentenceClassifier):
        return {"PA: without embeddings of words": total(found, without=(TOKENS,)).parameters}
    encoder = total(found, without=(LM_HEAD, CLASSIFICATION_HEAD)).parameters + sum(layout(model).values())
    pooler = sum(part.count.parameters for part in found if part.name == POOLER)
    return {
        "BERT, EA: with pooler, without language model's head": encoder + pooler,
        "COMP: with language model's head, without pooler": encoder + total(found, LM_HEAD).parameters,
    }
