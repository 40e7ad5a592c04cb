"""Segment tokenized sentence pairs into subwords."""

import argparse
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from options import add_text_options, text_options
from step import run
from transform import Transform, transform

MOST_WORDS = 200_000  # that a process remembers the segments of


class Segments(dict):
    """The BPE segments of each word; forgets all when they are many, so that memory does not grow with the corpus."""

    def __init__(self, codes: IO[str]):
        from subword_nmt.apply_bpe import BPE

        self.bpe = BPE(codes)

    def __missing__(self, word: str) -> str:
        if len(self) >= MOST_WORDS:
            self.clear()
            self.bpe.cache.clear()
        self[word] = self.bpe.segment(word)
        return self[word]


def make_segmenter(kind: str, model: Path) -> Callable[[str], str]:
    """A function that segments a line of words that stand apart by single spaces."""
    if kind == "bpe":
        with model.open(encoding="utf-8", newline="\n") as codes:
            segments = Segments(codes)
        return lambda line: " ".join(map(segments.__getitem__, line.split(" ")))
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(model))
    return lambda line: " ".join(processor.encode(line, out_type=str))


def make_segmenters(kind: str, models: list[Path]) -> Transform:
    """A function that segments the lines of both languages."""
    source, target = make_segmenter(kind, models[0]), make_segmenter(kind, models[-1])
    return lambda *sides: (list(map(source, sides[0])), list(map(target, sides[1])), Counter())


def main() -> None:
    """Segment."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--kind", choices=("bpe", "sentencepiece"), required=True)
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        required=True,
        help="what learn_subword.py made, once for both languages or once for each",
    )
    args = parser.parse_args()
    transform("subword", partial(make_segmenters, args.kind, args.model), **text_options(args))


if __name__ == "__main__":
    run(main)
