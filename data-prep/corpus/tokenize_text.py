"""Tokenize a file of text, line by line."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from step import run
from text_lines import map_lines, progress, read_lines, writing


def make_tokenizer(tokenizer: str, language: str, lowercase: bool) -> Callable[[str], str]:
    """A function that tokenizes a line; its tokens stand apart by single spaces."""
    tokenize = _moses(language) if tokenizer == "moses" else str
    change_case = str.lower if lowercase else str
    return lambda line: " ".join(change_case(tokenize(line)).split())


def _moses(language: str) -> Callable[[str], str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: tokenizer.tokenize(normalizer.normalize(line), return_str=True, escape=True)


def main() -> None:
    """Tokenize."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", choices=("moses", "none"), default="moses")
    parser.add_argument("--language", required=True, help="language of the text")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("input", type=Path, help="text, plain or .gz")
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    make = partial(make_tokenizer, args.tokenizer, args.language, args.lowercase)
    with writing(args.output) as write:
        for line in map_lines(make, progress(read_lines(args.input), args.input.name), args.workers):
            write(line)


if __name__ == "__main__":
    run(main)
