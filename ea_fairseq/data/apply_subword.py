"""Segment tokenized sentence pairs, or sentences, into subwords."""

import argparse
from collections import Counter
from functools import partial
from itertools import cycle
from pathlib import Path

from ea_fairseq.data.options import add_text_options, text_options
from ea_fairseq.data.transform import Transform, transform
from ea_fairseq.plain.commands import run
from ea_fairseq.text.subwords import WORDPIECE, make_segmenter


def make_segmenters(kind: str, models: list[Path]) -> Transform:
    """A transform that segments each language, with one model for all or one for each."""
    segmenters = [make_segmenter(kind, model) for model in models]
    return lambda *sides: (*(list(map(*pair)) for pair in zip(cycle(segmenters), sides)), Counter())


def main() -> None:
    """Segment."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--kind", choices=("bpe", "sentencepiece", *WORDPIECE), required=True)
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        required=True,
        help="what learn_subword.py made or BERT's vocabulary, once for all languages or once for each",
    )
    args = parser.parse_args()
    if args.kind in WORDPIECE:
        make_segmenters(args.kind, args.model)  # a bad vocabulary is refused here, and workers need not import
    transform("subword", partial(make_segmenters, args.kind, args.model), **text_options(args))


if __name__ == "__main__":
    run(main)
