"""Labels of examples: the numbers of classes, or scores."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import read_lines, writing

WHOLE = re.compile(r"[+-]?\d{1,15}")
MAX_CLASSES = 1000


@dataclass(frozen=True)
class Classes:
    """Classes by name, in the order of their numbers."""

    names: list[str]

    @classmethod
    def found_in(cls, labels: Path) -> "Classes":
        """Returns the classes in a file of labels: whole numbers in numeric order, other names in alphabetical order.

        Raises:
            UserError: if there are too few for a classifier, or so many that they are hardly classes.
        """
        names = set(read_lines(labels))
        if not 2 <= len(names) <= MAX_CLASSES:
            raise UserError(
                f"the training examples have {len(names)} different labels, but classes must be 2 to {MAX_CLASSES:,}: "
                "for scores, use the data set glue with --regression."
            )
        return cls(sorted(names, key=int if all(map(WHOLE.fullmatch, names)) else None))

    def number(self, label: str) -> str:
        """The number of a label; raises ValueError if it is not a class."""
        return str(self.names.index(label))

    @property
    def wanted(self) -> str:
        """The classes in words."""
        return f"one of {', '.join(self.names[:10])}{', ...' * (len(self.names) > 10)}"


@dataclass(frozen=True)
class Scores:
    """Scores from 0 to ``largest``, which are divided by it; if it is None, any finite numbers, as they are."""

    largest: float | None = None

    def number(self, label: str) -> str:
        """The score of a label; raises ValueError if it is not a score."""
        score = float(label)
        if not math.isfinite(score) or (self.largest is not None and not 0 <= score <= self.largest):
            raise ValueError(label)
        return str(score / (self.largest or 1.0))

    @property
    def wanted(self) -> str:
        """The scores in words."""
        return "a number" if self.largest is None else f"a number from 0 to {self.largest:g}"


def write_numbers(labels: Path, kind: Classes | Scores, split: str, output: Path) -> int:
    """Writes the number of each label, one per line, and returns how many there are.

    Raises:
        UserError: naming the first invalid label.
    """
    count = 0
    with writing(output) as write:
        for count, label in enumerate(read_lines(labels), 1):
            try:
                write(kind.number(label))
            except ValueError:
                raise UserError(f"label {count} of {split} is {label}, and must be {kind.wanted}.") from None
    return count
