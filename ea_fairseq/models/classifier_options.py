"""The flags of classifiers of sentences, beside those of encoders."""

from dataclasses import dataclass

from ea_fairseq.options import Options, fraction, option


def path(text: str | None) -> str:
    """A path, or an empty string for None."""
    return text or ""


@dataclass(frozen=True)
class ClassifierOptions(Options):
    """What PA's classifiers have beside an encoder.

    Raises:
        UserError: naming the flag, when a value is out of range.
    """

    dense_connections: bool = option(False, bool, "each layer reads what went into all layers below and came out")
    embedding_dropout: float = option(0.4, fraction, "dropout of embeddings", "a number from 0 to 1", "F")
    encoder_embed_path: str = option("", path, "file of words and their vectors, in text, to start from", "", "FILE")
    freeze_embeddings: bool = option(False, bool, "embeddings of words stay as they start")
