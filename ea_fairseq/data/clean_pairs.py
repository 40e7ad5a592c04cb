"""Sentence pairs for training: those of use, as Moses' clean-corpus-n has it."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain

from ea_fairseq.data.transform import Lines, Transform

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


def make_copier() -> Transform:
    """A transform that keeps all lines as they are."""
    return lambda source_lines, target_lines: (source_lines, target_lines, Counter())
