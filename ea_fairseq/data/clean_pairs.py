"""Drop the sentence pairs that are of no use for training, as Moses' clean-corpus-n does."""

import argparse
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain

from ea_fairseq.data.options import add_text_options, text_options
from ea_fairseq.data.transform import Lines, transform
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run

REASONS = ("empty", "too_long", "ratio", "long_word")
MAX_WORD_LENGTH = 1000  # characters, as clean-corpus-n has it


@dataclass(frozen=True)
class PairFilter:
    """A transform that keeps the pairs within the limits, and counts the others by the first limit they exceed.

    Args:
        max_length: tokens of a side.
        ratio: tokens of the longer side to those of the shorter.
    """

    max_length: int
    ratio: float

    def reason_to_drop(self, source: str, target: str) -> str | None:
        """Why this pair is dropped; None for a pair to keep."""
        words = source.split(), target.split()
        short, long = sorted(map(len, words))
        if short == 0:
            return "empty"
        if long > self.max_length:
            return "too_long"
        if long / short > self.ratio:
            return "ratio"
        return "long_word" if max(map(len, chain(*words))) > MAX_WORD_LENGTH else None

    def __call__(self, source_lines: Lines, target_lines: Lines) -> tuple[Lines, Lines, Counter]:
        """The lines of the pairs to keep, and how many pairs are dropped for each reason."""
        pairs = list(zip(source_lines, target_lines, strict=True))
        reasons = [self.reason_to_drop(*pair) for pair in pairs]
        kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
        dropped = Counter({reason: reasons.count(reason) for reason in REASONS})
        return [source for source, _ in kept], [target for _, target in kept], dropped


def main() -> None:
    """Clean."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--max-length", type=int, default=175, help="most tokens of a side")
    parser.add_argument("--ratio", type=float, default=1.5, help="most that one side is longer")
    args = parser.parse_args()
    make = partial(PairFilter, args.max_length, args.ratio)
    history = transform("clean", make, **text_options(args))
    if not history.kept:
        raise UserError("cleaning leaves no pair of train: check the languages, --max-length and --ratio.")


if __name__ == "__main__":
    run(main)
