"""Files of time series, ``.ts`` and ``.ts.gz``: a series a line, dimensions by ``:``, values by ``,``, target last."""

import gzip
import zlib
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.series.ts_header import MAX_STEPS, TsHeader

COMMENTS = b"#", b"%"  # the archives have both
MAX_LINE = 1 << 26  # bytes; the longest lines of the archives have 2 million
MAX_BYTES = 1 << 32  # of a file, unpacked
MAX_VALUES = 1 << 28  # of a file, which take 1 GiB; the archives' largest has 180 million


@dataclass(frozen=True)
class SeriesFile:
    """N series of C channels, and what is to be predicted of each.

    Args:
        path: of the file, for messages.
        series: (T, C) float32 each, NaN where a value is missing.
        labels: names of classes; None where there are none.
        targets: number of each one's class, or the number to predict; None where the file has neither.
    """

    path: Path
    series: list[np.ndarray]
    labels: tuple[str, ...] | None
    targets: list[Any] | None

    @property
    def channels(self) -> int:
        """C, of all series."""
        return self.series[0].shape[1]

    @property
    def longest(self) -> int:
        """The most steps T of a series."""
        return max(map(len, self.series))


def read_ts(path: Path) -> SeriesFile:
    """Reads a ``.ts`` file, or one that is packed by gzip if its name ends so.

    Raises:
        UserError: naming file and line, where it is not what its header says, damaged, or larger than series are.
        OSError: where it cannot be read.
    """
    header, in_header = TsHeader(), True
    series: list[np.ndarray] = []
    targets: list[Any] = []
    number = size = values = 0
    try:
        with open_file(path) as file:
            for raw in iter(partial(file.readline, MAX_LINE + 1), b""):
                number, size = number + 1, size + len(raw)
                line = text_of(raw, size)
                if in_header:
                    in_header = header.read(line)
                elif line:
                    one, target = parse_line(line, header)
                    values += one.size
                    if values > MAX_VALUES:
                        raise UserError(f"there are more than {MAX_VALUES:,} values so far, more than series have")
                    series.append(one)
                    targets.append(target)
    except UserError as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is not whole: its end is missing or damaged behind line {number}") from None
    if not series:
        raise UserError(f"{path} has no series: there must be one a line behind @data")
    return SeriesFile(path, series, header.labels, targets if header.has_target else None)


def text_of(line: bytes, size: int) -> str:
    """The text of a line, empty for a comment, which may be in any encoding.

    Args:
        size: bytes of the file so far.

    Raises:
        UserError: where it is no UTF-8, or line or file are too long.
    """
    if len(line) > MAX_LINE:
        raise UserError(f"it has more than {MAX_LINE:,} bytes, more than a series has")
    if size > MAX_BYTES:
        raise UserError(f"there are more than {MAX_BYTES:,} bytes so far, more than series have")
    try:
        text = "" if line.startswith(COMMENTS) else line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UserError("it is no UTF-8 text") from None
    return "" if text.startswith(("#", "%")) else text


def open_file(path: Path) -> gzip.GzipFile | BufferedReader:
    """The bytes of a file, unpacked."""
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def parse_line(line: str, header: TsHeader) -> tuple[np.ndarray, int | float | None]:
    """The series (T, C) of a line, and its target.

    ``header`` learns from the first line what it does not say: the number of channels.

    Raises:
        UserError: where the line is not what the header says.
    """
    dimensions = line.split(":")
    target = dimensions.pop() if header.has_target else None
    header.channels = header.channels or len(dimensions)
    if len(dimensions) != header.channels or not dimensions:
        raise UserError(f"it has {len(dimensions)} dimensions, and there must be {header.channels}")
    channels = [parse_values(text, number) for number, text in enumerate(dimensions, 1)]
    lengths = {*map(len, channels)}
    if len(lengths) > 1:
        raise UserError(f"its dimensions have {min(lengths)} to {max(lengths)} values, and must have the same number")
    (steps,) = lengths
    if header.equal_length and header.length is None:
        header.length = steps
    if header.length not in (None, steps):
        raise UserError(f"it has {steps} steps, and by the header there must be {header.length}")
    if steps > MAX_STEPS:
        raise UserError(f"it has {steps:,} steps, and {MAX_STEPS:,} are the most")
    series = np.stack(channels, axis=1)
    if header.missing is False and np.isnan(series).any():
        raise UserError("a value is missing, and @missing is false")
    return series, parse_target(target, header)


def parse_values(text: str, dimension: int) -> np.ndarray:
    """The values (T,) of one dimension, NaN for ``?`` and ``NaN``; raises UserError where one is no finite number."""
    words = text.split(",")
    try:
        with np.errstate(over="ignore"):
            values = np.array([np.nan if word.strip() == "?" else number(word) for word in words], dtype=np.float32)
    except (ValueError, OverflowError):
        wrong = next(word for word in words if word.strip() != "?" and not is_number(word))
        raise UserError(f"{wrong.strip()[:40]!r} in dimension {dimension} is no number") from None
    if np.isinf(values).any():
        raise UserError(f"a value in dimension {dimension} is infinite or too large for a number of 32 bits")
    return values


def number(word: str) -> float:
    """A number as float() reads it, but without underscores; raises ValueError otherwise."""
    if "_" in word:
        raise ValueError(word)
    return float(word)


def is_number(word: str) -> bool:
    """Whether :func:`number` reads it."""
    try:
        number(word)
    except ValueError:
        return False
    return True


def parse_target(text: str | None, header: TsHeader) -> int | float | None:
    """The number of a class, or the number to predict; raises UserError where it is none."""
    if text is None:
        return None
    text = text.strip()
    if header.labels is not None:
        if text not in header.labels:
            raise UserError(f"its class {text[:40]!r} is not among those of @classLabel")
        return header.labels.index(text)
    if not is_number(text) or not abs(number(text)) <= np.finfo(np.float32).max:
        raise UserError(f"{text[:40]!r} is no number to predict")
    return number(text)
