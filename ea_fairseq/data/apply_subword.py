"""Subwords of words: BPE, sentencepiece or WordPiece."""

from collections import Counter
from functools import partial
from itertools import cycle
from pathlib import Path

from ea_fairseq.data.transform import Transform, transform
from ea_fairseq.text.subwords import WORDPIECE, make_segmenter


def make_segmenters(kind: str, models: list[Path]) -> Transform:
    """A transform that segments each language, with one model for all or one for each."""
    segmenters = [make_segmenter(kind, model) for model in models]
    return lambda *sides: (*(list(map(*pair)) for pair in zip(cycle(segmenters), sides)), Counter())


def segment(output: Path, *, kind: str, models: list[Path], **text) -> None:
    """Writes sentences in subwords to a new text folder; ``text`` is what :func:`transform` takes.

    Args:
        kind: bpe, sentencepiece, wordpiece or cased_wordpiece.
        models: what learn_subword.py made or BERT's vocabulary, one for all languages or one for each.
    """
    if kind in WORDPIECE:
        make_segmenters(kind, models)  # a bad vocabulary is refused here, and workers need not import
    transform("subword", partial(make_segmenters, kind, models), output=output, **text)
