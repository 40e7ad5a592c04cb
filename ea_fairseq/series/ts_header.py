"""The header of a ``.ts`` file, the text format of the UEA and UCR archives and of the regression archive."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ea_fairseq.errors import UserError
from ea_fairseq.options import whole

MAX_CHANNELS, MAX_STEPS, MAX_LABELS = 1 << 16, 1 << 20, 10_000


def boolean(text: str) -> bool:
    """Parses ``true`` or ``false``; raises ValueError otherwise."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def labels(text: str) -> tuple[str, ...] | None:
    """Parses ``true`` with the names of classes after it, or ``false``, None; raises ValueError otherwise."""
    has_labels, *names = text.split()
    if not boolean(has_labels):
        return None
    if not names or len({*names}) < len(names) or len(names) > MAX_LABELS or not "".join(names).isprintable():
        raise ValueError(text)
    return tuple(names)


ENTRIES: dict[
    str, tuple[str, Callable[[str], Any], str]
] = {  # by the lower-case name behind the @: the field of TsHeader, its parser, what it must be
    "problemname": ("name", str, "a name"),
    "timestamps": ("timestamps", boolean, "true or false"),
    "missing": ("missing", boolean, "true or false"),
    "univariate": ("univariate", boolean, "true or false"),
    "dimension": ("channels", whole(1, MAX_CHANNELS), f"a whole number from 1 to {MAX_CHANNELS:,}"),
    "dimensions": ("channels", whole(1, MAX_CHANNELS), f"a whole number from 1 to {MAX_CHANNELS:,}"),
    "equallength": ("equal_length", boolean, "true or false"),
    "serieslength": ("length", whole(1, MAX_STEPS), f"a whole number from 1 to {MAX_STEPS:,}"),
    "classlabel": ("labels", labels, f"false, or true and the names of up to {MAX_LABELS:,} classes"),
    "targetlabel": ("has_number", boolean, "true or false"),
}


@dataclass
class TsHeader:
    """What stands before ``@data``; None where it is not said.

    Args:
        channels: dimensions C of each series.
        length: steps T of each series.
        labels: names of classes, in the file's order; None without.
        has_number: whether a number to predict comes last in a line.
    """

    name: str = ""
    timestamps: bool = False
    missing: bool | None = None
    univariate: bool | None = None
    channels: int | None = None
    equal_length: bool | None = None
    length: int | None = None
    labels: tuple[str, ...] | None = None
    has_number: bool = False
    said: dict[str, str] = field(default_factory=dict, repr=False)  # the line of each field so far

    @property
    def has_target(self) -> bool:
        """Whether what is to be predicted comes last in a line."""
        return self.labels is not None or self.has_number

    def read(self, line: str) -> bool:
        """Takes a line ``@name value``, or an empty one; returns whether there are more, which ``@data`` ends.

        Raises:
            UserError: where there is no entry of this name, or its value is not what it must be.
        """
        if not line:
            return True
        if line.lower() == "@data":
            self.check()
            return False
        if not line.startswith("@"):
            raise UserError("there must be @data before the first series")
        name, _, text = line[1:].partition(" ")
        if name.lower() not in ENTRIES:
            raise UserError(f"{line[:40]!r} is no entry of a .ts file's header")
        entry, parse, wanted = ENTRIES[name.lower()]
        before = getattr(self, entry)
        try:
            setattr(self, entry, parse(text.strip()))
        except (ValueError, OverflowError):
            raise UserError(f"@{name} must be {wanted}, not {text.strip()[:40]!r}") from None
        if entry in self.said and getattr(self, entry) != before:
            raise UserError(f"{line[:40]!r} contradicts {self.said[entry][:40]!r}")
        self.said[entry] = line
        return True

    def check(self) -> None:
        """
        Raises:
            UserError: at ``@data``, where entries contradict each other or there is one that we cannot read by.
        """
        if self.timestamps:
            raise UserError("@timeStamps is true, and series with times of their own are not read here")
        if self.labels is not None and self.has_number:
            raise UserError("@classLabel and @targetLabel are both true, and a line ends in one of them")
        if self.univariate is not None and self.channels and self.univariate != (self.channels == 1):
            raise UserError(f"@univariate is {str(self.univariate).lower()} and @dimensions is {self.channels}")
        if self.equal_length is False and self.length is not None:
            raise UserError(f"@equalLength is false and @seriesLength is {self.length}")
        if self.univariate:
            self.channels = 1
