"""Tokenize sentence pairs."""

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

from options import add_text_options, text_options
from selections import Sample
from step import run
from tokenization import Tokenization
from transform import Transform, transform


def make_tokenizers(tokenization: Tokenization, languages: tuple[str, str]) -> Transform:
    """A transform that tokenizes both languages."""
    source, target = map(tokenization.tokenizer_for, languages)
    return lambda source_lines, target_lines: (source(source_lines), target(target_lines), Counter())


def main() -> None:
    """Tokenize."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--tokenizer", choices=("moses", "none"), default="moses")
    parser.add_argument("--normalize", action="store_true", help="normalise punctuation first, as Moses does")
    parser.add_argument("--dash-splits", action="store_true", help="split words at hyphens")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--moses", type=Path, help="folder of Moses, to use its own scripts")
    parser.add_argument("--sample", type=int, help="draw this many pairs at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of that draw")
    args = parser.parse_args()
    tokenization = Tokenization(args.tokenizer, args.normalize, args.dash_splits, args.lowercase, args.moses)
    sample = Sample(args.sample, args.seed) if args.sample else None
    make = partial(make_tokenizers, tokenization, tuple(args.languages))
    transform("tokenize", make, selection=sample, **text_options(args))


if __name__ == "__main__":
    run(main)
