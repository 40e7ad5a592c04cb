"""Flags of encoder-only models and of sentence classifiers, in addition to those of fairseq's RoBERTa."""

import math
from dataclasses import dataclass

from ea_fairseq.options import FRACTION, Options, Values, one_of, option, switch, whole

MOST_SEGMENTS = 1024
CLASS_TOKEN, POOLED = "class_token", "pooled"


def positive(text: str) -> float:
    """Parses a finite number above 0; raises ValueError otherwise."""
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class EncoderOptions(Options):
    """Options of an encoder's embeddings, layer norms and head, and others that fairseq's RoBERTa has no flags for.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    embedding_size: int = option(
        0,
        whole(0),
        "width of the embeddings if it differs from --encoder-embed-dim; linear layers map between the two. "
        "0: the same width",
    )
    segments: int = option(
        0, whole(0, MOST_SEGMENTS), "number of segment embeddings; a token's segment is the number of </s> before it"
    )
    layer_norm_eps: float = option(
        1e-5, Values(positive, "a number above 0", "F"), "epsilon of layer norms (BERT: 1e-12)"
    )
    classification_head: str = option(
        CLASS_TOKEN,
        one_of(CLASS_TOKEN, POOLED, metavar="HEAD"),
        f"what classifies a text: {CLASS_TOKEN}, RoBERTa's head; {POOLED}, an LSTM over words, pooled by attention",
    )
    freeze_encoder: bool = switch("train the classification head alone")
    no_token_positional_embeddings: bool = switch("do not add position embeddings")
    checkpoint_activations: bool = switch("recompute activations in the backward pass")
    offload_activations: bool = switch("recompute activations, and store the layers' inputs in CPU memory")


def path_or_empty(text: str | None) -> str:
    """Returns a path, or an empty string for None."""
    return text or ""


@dataclass(frozen=True)
class ClassifierOptions(Options):
    """Options of the classifiers of Predictive Attention Transformer, in addition to those of an encoder.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dense_connections: bool = switch("each layer reads the inputs and outputs of all layers below it")
    embedding_dropout: float = option(0.4, FRACTION, "dropout of embeddings")
    encoder_embed_path: str = option("", Values(path_or_empty, "", "FILE"), "text file of pretrained token embeddings")
    freeze_embeddings: bool = switch("do not train the token embeddings")
