"""Lines of text: tidying, reading and writing them."""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from ea_fairseq.errors import UserError

MAX_LINE = 10_000_000  # bytes
GZIP_LEVEL = 4  # three times as fast as 6; files are 7% larger
LINE_BREAKS = re.compile("[\x00-\x1f\x85\u2028\u2029]+")


def tidy(line: str) -> str:
    """Strips a line and replaces control characters and Unicode's other line separators by spaces."""
    line = line.strip()
    return line if line.isprintable() else LINE_BREAKS.sub(" ", line).strip()


def open_bytes(path: Path) -> io.BufferedIOBase:
    """Opens a plain or gzipped file to read bytes."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    """Yields the tidied lines of a plain or gzipped file; only a line feed ends a line."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        yield from map(tidy, file)


def checked_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields number and bytes of each line of a user's plain or gzipped file of UTF-8.

    Raises:
        UserError: naming the line that is not UTF-8 or too long, or the file that is damaged.
    """
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
                if len(line) > MAX_LINE:
                    raise UserError(f"line {number} of {path} has more than {MAX_LINE:,} bytes: is it text?")
                line.decode("utf-8")
                yield number, line
    except UnicodeDecodeError:
        raise UserError(f"line {number} of {path} is not UTF-8: convert the file with iconv.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is not a whole gzip file: fetch or compress it again.") from None


def find_file(folder: Path, name: str) -> Path:
    """Finds the file of a name in a folder, plain or gzipped; raises UserError if there are both or neither."""
    if found := find_optional_file(folder, name):
        return found
    raise UserError(f"{folder} has neither {name} nor {name}.gz: put it there.")


def find_optional_file(folder: Path, name: str) -> Path | None:
    """Finds the file of a name in a folder, plain or gzipped, or None; raises UserError if there are both."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise UserError(f"{folder} has both {name} and {name}.gz: remove the one that is not meant.")
    return found[0] if found else None


def find_splits(folder: Path, ending: str) -> dict[str, Path]:
    """Finds the files of train, valid and, if it is there, test; raises UserError as :func:`find_file` does."""
    found = {split: find_file(folder, f"{split}.{ending}") for split in ("train", "valid")}
    test = find_optional_file(folder, f"test.{ending}")
    return found | ({"test": test} if test else {})


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Adds the file's name to an OSError that has none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def writing(path: Path) -> Iterator[Callable[[str], object]]:
    """Opens a file and yields a function that writes a line; .gz is gzipped reproducibly, without name and time."""
    with named_in_errors(path), path.open("wb") as file:
        stream = gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) if path.suffix == ".gz" else file
        with io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
            yield lambda line: text.write(line + "\n")


def progress(lines: Iterable, label: str, unit: str = "lines", total: int | None = None) -> Iterable:
    """Yields the lines, with a progress bar on stdout after two seconds; ``total`` is their number, if known."""
    bar = {"unit": f" {unit}", "unit_scale": True, "delay": 2, "leave": False, "file": sys.stdout}
    from tqdm import tqdm  # the quick start checks its options before anything is installed

    tqdm.set_lock(RLock())  # one process draws; tqdm's own lock is a semaphore, which a killed process leaves behind
    return tqdm(lines, label, total, **bar)
