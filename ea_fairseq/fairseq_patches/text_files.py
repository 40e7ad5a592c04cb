"""Errors in a dictionary or a text are reported in one sentence with file and line.

- ``Dictionary.add_from_file`` (fairseq/data/dictionary.py) raises errors that name no file and end in a traceback, or
  blame the checkpoint that the dictionary belongs to. Here a FileError names file and line.
- ``fairseq-preprocess`` ends with "negative seek position -1" or a traceback if text is not UTF-8
  (fairseq/file_chunker_utils.py). Here a FileError names file, line and byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

from fairseq.binarizer import Binarizer, BinarizeSummary, FileBinarizer
from fairseq.data import Dictionary

from ea_fairseq.checkpoint.config import shown
from ea_fairseq.errors import FileError

OVERWRITE = "#fairseq:overwrite"  # at the end of a line: the token may replace one of the same name
fairseq_add_from_file = Dictionary.add_from_file
fairseq_count = Dictionary.add_file_to_dictionary
fairseq_binarize = FileBinarizer.multiprocess_dataset.__func__


def patch_text_files() -> None:
    """Replaces ``Dictionary.add_from_file``, and the functions of ``fairseq-preprocess`` that count and binarize."""
    Dictionary.add_from_file = add_from_file
    Dictionary.add_file_to_dictionary = staticmethod(count)
    FileBinarizer.multiprocess_dataset = classmethod(binarize)


def add_from_file(self: Dictionary, f: Any) -> None:
    """Adds the words of a file as fairseq does.

    Args:
        f: a path, or a file that is open.

    Raises:
        FileError: naming the file of a path, and the line that is wrong.
        FileNotFoundError: if the file does not exist.
    """
    known = set(self.indices)
    try:
        fairseq_add_from_file(self, f)
    except OSError:
        raise
    except Exception as error:
        flaw = None if not isinstance(f, str) else next(flaws(f, known), None)
        if flaw is None:
            raise
        raise FileError(f"the dictionary {f} {flaw}") from error


def flaws(path: str, known: set[str]) -> Iterator[str]:
    """Yields the end of a sentence for each error in a dictionary's file; ``known`` are fairseq's special symbols."""
    lines = dict.fromkeys(known, 0)
    try:
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n")[:-1], 1):
            try:
                word, count = line.rstrip().rsplit(" ", 1)
                if overwrites := count == OVERWRITE:
                    word, count = word.rsplit(" ", 1)
                int(count)
            except ValueError:
                yield f"needs a word, a space and a count in line {number}, not {shown(line)}"
                continue
            if word in lines and not overwrites:
                place = f"in line {lines[word]}" if lines[word] else "among fairseq's symbols"
                yield f"has the word {shown(word)} of line {number} {place} already"
            lines[word] = number
    except UnicodeDecodeError:
        yield "is not UTF-8"


def count(path: str, *args: Any, **kwargs: Any) -> None:
    """Adds the words of a file to a dictionary as fairseq does; raises FileError if it is not UTF-8."""
    with utf8(path):
        fairseq_count(path, *args, **kwargs)


def binarize(
    cls: type[FileBinarizer],
    path: str,
    dataset_impl: str,
    binarizer: Binarizer,
    output_prefix: str,
    *args: Any,
    **kwargs: Any,
) -> BinarizeSummary:
    """Binarizes a file as fairseq does; if it is not UTF-8, raises FileError and leaves no half of a data set."""
    try:
        with utf8(path):
            return fairseq_binarize(cls, path, dataset_impl, binarizer, output_prefix, *args, **kwargs)
    except FileError:
        prefix = Path(output_prefix)
        for part in prefix.parent.glob(f"{escape(prefix.name)}*.bin"):
            if not part.with_suffix(".idx").exists():
                part.unlink()
        raise


@contextmanager
def utf8(path: str) -> Iterator[None]:
    """Turns a ValueError in reading a file that is not UTF-8 into a FileError.

    Raises:
        FileError: naming the line and the byte.
    """
    try:
        yield
    except ValueError as error:
        if (flaw := flaw_of(path)) is None:
            raise
        raise FileError(flaw) from error


def flaw_of(path: str) -> str | None:
    """Returns a sentence about the first byte that is not UTF-8, or None if there is none or no regular file."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"{path} is not UTF-8: line {number} has the byte 0x{line[error.start]:02x}"
    return None
