"""Segment tokenized text into subwords."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from step import run
from text_lines import map_lines, progress, read_lines, writing


def make_segmenter(kind: str, model: Path) -> Callable[[str], str]:
    """A function that segments a line."""
    if kind == "bpe":
        from subword_nmt.apply_bpe import BPE

        with model.open(encoding="utf-8", newline="\n") as codes:
            return BPE(codes).process_line
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(model))
    return lambda line: " ".join(processor.encode(line, out_type=str))


def main() -> None:
    """Segment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("bpe", "sentencepiece"), required=True)
    parser.add_argument("--model", type=Path, required=True, help="what learn_subword.py made")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("input", type=Path, help="tokenized text")
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    make = partial(make_segmenter, args.kind, args.model)
    with writing(args.output) as write:
        for line in map_lines(make, progress(read_lines(args.input), args.input.name), args.workers):
            write(line)


if __name__ == "__main__":
    run(main)
