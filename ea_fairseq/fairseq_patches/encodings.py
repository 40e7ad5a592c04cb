"""Text that is not UTF-8 is named in one sentence, with its line.

``fairseq-preprocess`` ends with "negative seek position -1" or a traceback there (fairseq/file_chunker_utils.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

from fairseq.binarizer import Binarizer, BinarizeSummary, FileBinarizer
from fairseq.data import Dictionary

from ea_fairseq.errors import FileError

fairseq_count = Dictionary.add_file_to_dictionary
fairseq_binarize = FileBinarizer.multiprocess_dataset.__func__


def patch_encodings() -> None:
    """Replaces what ``fairseq-preprocess`` counts words and binarizes sentences with."""
    Dictionary.add_file_to_dictionary = staticmethod(count)
    FileBinarizer.multiprocess_dataset = classmethod(binarize)


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
    """
    Raises:
        FileError: naming the line, instead of a ValueError, if the file is not UTF-8.
    """
    try:
        yield
    except ValueError as error:
        if (flaw := flaw_of(path)) is None:
            raise
        raise FileError(flaw) from error


def flaw_of(path: str) -> str | None:
    """A sentence that tells where a file is not UTF-8; None if it is, or if it cannot be read again."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"{path} is not UTF-8: line {number} has the byte 0x{line[error.start]:02x}"
    return None
