"""Sentence pairs for training: those of use, as Moses' clean-corpus-n has it, some of them put aside for validation."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ea_fairseq.data.transform import EveryNth, Lines, Transform, transform
from ea_fairseq.errors import UserError

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


def clean(output: Path, *, max_length: int, ratio: float, **text: Any) -> None:
    """Writes the pairs that :class:`PairFilter` keeps to a new text folder; ``text`` is what :func:`transform` takes.

    Raises:
        UserError: where it keeps none.
    """
    history = transform("clean", partial(PairFilter, max_length, ratio), output=output, **text)
    if not history.kept:
        raise UserError("cleaning leaves no pair of train: check the languages, --max-length and --ratio.")


def make_copier() -> Transform:
    """A transform that keeps all lines as they are."""
    return lambda source_lines, target_lines: (source_lines, target_lines, Counter())


def split(output: Path, *, every: int, **text: Any) -> None:
    """Writes the text folders ``valid``, with every Nth pair, and ``train``, with the others, to a new folder.

    Raises:
        UserError: where one of them would be empty.
    """
    for name in ("train", "valid"):
        selection = EveryNth(every, others=name == "train")
        history = transform("split", make_copier, output=output / name, selection=selection, **text)
        if not history.kept:
            raise UserError(f"there are too few pairs to put every {every}th into valid: use more text.")
