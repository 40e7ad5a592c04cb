"""Text folders, in which sentence pairs go from step to step, or sentences alone.

A text folder holds `text.xx` and `text.yy`, or `text.xx.gz` and `text.yy.gz`, one sentence a line, and `history.json`.
"""

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from ea_fairseq.data.history import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import GZIP_LEVEL, named_in_errors, open_bytes

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Pair = tuple[bytes, ...]  # of lines with their line feeds, one of each language


@dataclass(frozen=True)
class TextFolder:
    """A folder of sentence pairs, or sentences; ``languages`` are the suffixes of source and target, or of these."""

    path: Path
    languages: tuple[str, ...]

    def file(self, language: str) -> Path:
        """The file of a language, plain or gzipped."""
        plain = self.path / f"text.{language}"
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    @property
    def history(self) -> History:
        """The history in the folder's history.json."""
        return History.read(self.path / "history.json")

    def pairs(self) -> Iterator[Pair]:
        """Yields the pairs in order; raises UserError where the two languages differ in length."""
        with ExitStack() as stack:
            files = [stack.enter_context(open_bytes(self.file(language))) for language in self.languages]
            try:
                yield from zip(*map(_lines, files), strict=True)
            except ValueError:
                raise UserError(
                    f"the two languages in {self.path} differ in length: remove it and run again."
                ) from None


class TextWriter:
    """A context manager that writes a text folder."""

    def __init__(self, folder: TextFolder, compress: bool = False):
        """``folder`` must not exist; ``compress`` says that :meth:`write` will get gzipped lines."""
        self.folder = folder
        self.suffix = ".gz" if compress else ""

    def __enter__(self) -> "TextWriter":
        """Makes the folder and opens its files."""
        self.folder.path.mkdir(parents=True)
        paths = [self.folder.path / f"text.{language}{self.suffix}" for language in self.folder.languages]
        self._files = [path.open("wb") for path in paths]
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the files; an OSError names its file."""
        with ExitStack() as closing:  # each of them, even where closing another fails
            for file in self._files:
                closing.enter_context(named_in_errors(Path(file.name)))
                closing.callback(file.close)

    def write(self, *sides: bytes) -> None:
        """Appends lines of each language, as :func:`encode_lines` encodes them."""
        for file, lines in zip(self._files, sides, strict=True):
            with named_in_errors(Path(file.name)):
                file.write(lines)

    def finish(self, history: History) -> None:
        """Writes the history."""
        history.write(self.folder.path / "history.json")


def encode_lines(lines: list[str], compress: bool) -> bytes:
    """Lines as bytes, gzipped on demand; the bytes of several calls can be concatenated into one file."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text, GZIP_LEVEL, mtime=0) if compress else text


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file without a byte order mark, each ending with a line feed."""
    for first in islice(file, 1):
        yield _with_line_feed(first.removeprefix(BYTE_ORDER_MARK))
    yield from map(_with_line_feed, file)


def _with_line_feed(line: bytes) -> bytes:
    """The line, with a line feed if it has none, as a file's last line may."""
    return line if line.endswith(b"\n") else line + b"\n"
