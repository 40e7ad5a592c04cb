"""Files of time series, ``.ts`` and ``.ts.gz``, as in the archives of UEA, UCR and of regression.

A header of lines ``@name value`` ends with ``@data``; then each line is a series: dimensions separated by colons,
values by commas, and the target last.
"""

import gzip
import math
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.options import Values, whole
from ea_fairseq.plain.text_lines import open_bytes

MAX_CHANNELS, MAX_STEPS, MAX_LABELS = 1 << 16, 1 << 20, 10_000
MAX_LINE = 1 << 26  # bytes; the longest lines of the archives have 2 million
MAX_BYTES = 1 << 32  # of a file, unpacked
MAX_VALUES = 1 << 28  # of a file, which take 1 GiB; the archives' largest has 180 million


@dataclass(frozen=True)
class SeriesFile:
    """N series of C channels, and their targets.

    Args:
        path: the file, for messages.
        series: (T, C) float32 each, NaN where a value is missing.
        labels: names of classes; None without classes.
        targets: class number of each series, or the number to predict; None if the file has neither.
    """

    path: Path
    series: list[np.ndarray]
    labels: tuple[str, ...] | None
    targets: list[Any] | None

    def __len__(self) -> int:
        return len(self.series)

    @property
    def channels(self) -> int:
        """C, of all series."""
        return self.series[0].shape[1]

    @property
    def longest(self) -> int:
        """The number of steps T of the longest series."""
        return max(map(len, self.series))


def boolean(text: str) -> bool:
    """Parses ``true`` or ``false``; raises ValueError otherwise."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def class_names(text: str) -> tuple[str, ...] | None:
    """Parses ``true`` and the names of classes after it, or ``false`` as None; raises ValueError otherwise."""
    has_labels, *names = text.split()
    if not boolean(has_labels):
        return None
    if not names or len({*names}) < len(names) or len(names) > MAX_LABELS or not "".join(names).isprintable():
        raise ValueError(text)
    return tuple(names)


CHANNELS = ("channels", whole(1, MAX_CHANNELS))
SWITCHES = {"timestamps": "timestamps", "missing": "missing", "univariate": "univariate"}
SWITCHES |= {"equallength": "equal_length", "targetlabel": "has_number"}
# For each lower-case name after the @: the field of TsHeader, and its values.
ENTRIES: dict[str, tuple[str, Values]] = {
    "problemname": ("name", Values(str, "a name")),
    "dimension": CHANNELS,
    "dimensions": CHANNELS,
    "serieslength": ("length", whole(1, MAX_STEPS)),
    "classlabel": ("labels", Values(class_names, f"false, or true and the names of up to {MAX_LABELS:,} classes")),
    **{name: (switch, Values(boolean, "true or false")) for name, switch in SWITCHES.items()},
}


@dataclass
class TsHeader:
    """The lines before ``@data``; a field is None if no line sets it.

    Args:
        channels: dimensions C of each series.
        length: steps T of each series.
        labels: names of classes, in the file's order; None without.
        has_number: whether each line ends with a number to predict.
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
    lines: dict[str, str] = field(default_factory=dict, repr=False)  # of each field so far

    @property
    def has_target(self) -> bool:
        """Whether each line ends with a target."""
        return self.labels is not None or self.has_number

    def read(self, line: str) -> bool:
        """Reads a line ``@name value``, or an empty one; returns whether more lines follow, False at ``@data``.

        Raises:
            UserError: if there is no entry of this name, or its value is invalid.
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
        entry, values = ENTRIES[name.lower()]
        before = getattr(self, entry)
        try:
            setattr(self, entry, values.parse(text.strip()))
        except (ValueError, OverflowError):
            raise UserError(f"@{name} must be {values.wanted}, not {text.strip()[:40]!r}") from None
        if entry in self.lines and getattr(self, entry) != before:
            raise UserError(f"{line[:40]!r} contradicts {self.lines[entry][:40]!r}")
        self.lines[entry] = line
        return True

    def check(self) -> None:
        """
        Raises:
            UserError: at ``@data``, if entries contradict each other or one of them is not supported.
        """
        if self.timestamps:
            raise UserError("@timeStamps is true, but series with time stamps are not supported")
        if self.labels is not None and self.has_number:
            raise UserError("@classLabel and @targetLabel are both true, but a line ends with one target")
        if self.univariate is not None and self.channels and self.univariate != (self.channels == 1):
            raise UserError(f"@univariate is {str(self.univariate).lower()} and @dimensions is {self.channels}")
        if self.equal_length is False and self.length is not None:
            raise UserError(f"@equalLength is false and @seriesLength is {self.length}")
        if self.univariate:
            self.channels = 1

    def parse_line(self, line: str) -> tuple[np.ndarray, int | float | None]:
        """Parses a line after ``@data`` to a series (T, C) and its target; the first sets what the header leaves open.

        Raises:
            UserError: if the line is not what the header says.
        """
        dimensions = line.split(":")
        target = dimensions.pop() if self.has_target else None
        self.channels = self.channels or len(dimensions)
        if len(dimensions) != self.channels or not dimensions:
            raise UserError(f"it has {len(dimensions)} dimensions, and there must be {self.channels}")
        channels = [parse_values(text, number) for number, text in enumerate(dimensions, 1)]
        steps, most = min(map(len, channels)), max(map(len, channels))
        if steps < most:
            raise UserError(f"its dimensions have {steps} to {most} values, and must have the same number")
        if self.equal_length and self.length is None:
            self.length = steps
        if self.length not in (None, steps):
            raise UserError(f"it has {steps} steps, but by the header there must be {self.length}")
        if steps > MAX_STEPS:
            raise UserError(f"it has {steps:,} steps, but at most {MAX_STEPS:,} are supported")
        series = np.stack(channels, axis=1)
        if self.missing is False and np.isnan(series).any():
            raise UserError("a value is missing, and @missing is false")
        return series, None if target is None else self.parse_target(target.strip())

    def parse_target(self, text: str) -> int | float:
        """Returns the number of a class, or the number to predict; raises UserError if it is neither."""
        if self.labels is not None:
            if text not in self.labels:
                raise UserError(f"its class {text[:40]!r} is not among those of @classLabel")
            return self.labels.index(text)
        number = parse_number(text)
        if number is None or not abs(number) <= np.finfo(np.float32).max:
            raise UserError(f"{text[:40]!r} is no number to predict")
        return number


def parse_values(text: str, dimension: int) -> np.ndarray:
    """Parses the values (T,) of one dimension, NaN for ``?`` and ``NaN``; raises UserError if one is not finite."""
    words = text.split(",")
    numbers = list(map(parse_number, words))
    if None in numbers:
        raise UserError(f"{words[numbers.index(None)].strip()[:40]!r} in dimension {dimension} is no number")
    with np.errstate(over="ignore"):
        values = np.array(numbers, dtype=np.float32)
    if np.isinf(values).any():
        raise UserError(f"a value in dimension {dimension} is infinite or too large for a number of 32 bits")
    return values


def parse_number(word: str) -> float | None:
    """Parses a number as float() does, but without underscores, and ``?`` as NaN; returns None for other text."""
    try:
        return math.nan if word.strip() == "?" else None if "_" in word else float(word)
    except ValueError:
        return None


def read_ts(path: Path) -> SeriesFile:
    """Reads a ``.ts`` file, gzipped if its name ends in ``.gz``.

    Raises:
        UserError: naming file and line, if it is not what its header says, damaged, or larger than series are.
        OSError: if it cannot be read.
    """
    header, in_header = TsHeader(), True
    series: list[np.ndarray] = []
    targets: list[Any] = []
    number = size = values = 0
    try:
        with open_bytes(path) as file:
            for raw in iter(partial(file.readline, MAX_LINE + 1), b""):
                number, size = number + 1, size + len(raw)
                line = text_of(raw, size)
                if in_header:
                    in_header = header.read(line)
                elif line:
                    one, target = header.parse_line(line)
                    values += one.size
                    if values > MAX_VALUES:
                        raise UserError(f"there are more than {MAX_VALUES:,} values so far, more than series have")
                    series.append(one)
                    targets.append(target)
    except UserError as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is not whole: its end is missing or damaged after line {number}") from None
    if not series:
        raise UserError(f"{path} has no series: there must be one per line after @data")
    return SeriesFile(path, series, header.labels, targets if header.has_target else None)


def text_of(line: bytes, size: int) -> str:
    """Decodes a line; a comment, in any encoding, becomes empty; ``size`` is the number of bytes so far.

    Raises:
        UserError: if it is not UTF-8, or line or file are too long.
    """
    if len(line) > MAX_LINE:
        raise UserError(f"it has more than {MAX_LINE:,} bytes, more than a series has")
    if size > MAX_BYTES:
        raise UserError(f"there are more than {MAX_BYTES:,} bytes so far, more than series have")
    if line.startswith((b"#", b"%")):  # the archives have both
        return ""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UserError("it is no UTF-8 text") from None
    return "" if text.startswith(("#", "%")) else text
