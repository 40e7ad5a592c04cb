"""Tokenize sentence pairs, or sentences."""

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

from ea_fairseq.data.options import add_text_options, text_options
from ea_fairseq.data.selections import Sample
from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.data.transform import Transform, transform
from ea_fairseq.plain.commands import run


def make_tokenizers(tokenization: Tokenization, languages: tuple[str, ...]) -> Transform:
    """A transform that tokenizes each language."""
    tokenizers = list(map(tokenization.tokenizer_for, languages))
    return lambda *sides: (*(tokenize(lines) for tokenize, lines in zip(tokenizers, sides, strict=True)), Counter())


def main() -> None:
    """Tokenize."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--tokenizer", choices=("moses", "none"), default="moses")
    parser.add_argument("--normalize", action="store_true", help="normalise punctuation first, as Moses does")
    parser.add_argument("--dash-splits", action="store_true", help="split words at hyphens")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--moses", type=Path, help="folder of Moses, to use its own scripts")
    parser.add_argument("--language", help="that of all sides, where they are not called after theirs")
    parser.add_argument("--sample", type=int, help="draw this many pairs at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of that draw")
    args = parser.parse_args()
    tokenization = Tokenization(args.tokenizer, args.normalize, args.dash_splits, args.lowercase, args.moses)
    sample = Sample(args.sample, args.seed) if args.sample else None
    languages = (args.language,) * len(args.languages) if args.language else tuple(args.languages)
    make = partial(make_tokenizers, tokenization, languages)
    transform("tokenize", make, selection=sample, **text_options(args))


if __name__ == "__main__":
    run(main)
