"""Text folders, in which sentence pairs go from step to step.

A text folder holds `text.xx` and `text.yy`, or `text.xx.gz` and `text.yy.gz`, one sentence a line, and `history.json`.
"""

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from history import History
from step import StepError
from text_lines import FAST, named_in_errors, open_bytes

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Pair = tuple[bytes, bytes]  # of lines with their line feeds


@dataclass(frozen=True)
class TextFolder:
    """A folder of sentence pairs."""

    path: Path
    languages: tuple[str, str]

    def file(self, language: str) -> Path:
        """The file of a language, plain or gzipped."""
        plain = self.path / f"text.{language}"
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    @property
    def history(self) -> History:
        """What has happened to the text so far."""
        return History.read(self.path / "history.json")

    def pairs(self) -> Iterator[Pair]:
        """The pairs in order."""
        with ExitStack() as stack:
            source, target = (stack.enter_context(open_bytes(self.file(language))) for language in self.languages)
            try:
                yield from zip(_lines(source), _lines(target), strict=True)
            except ValueError:
                raise StepError(
                    f"the two languages in {self.path} differ in length: remove it and run again."
                ) from None


class TextWriter:
    """Writes a text folder, within a `with` statement."""

    def __init__(self, folder: TextFolder, compress: bool = False):
        self.folder = folder
        self.suffix = ".gz" if compress else ""

    def __enter__(self) -> "TextWriter":
        self.folder.path.mkdir(parents=True)
        paths = [self.folder.path / f"text.{language}{self.suffix}" for language in self.folder.languages]
        self._files = [path.open("wb") for path in paths]
        return self

    def __exit__(self, *error: object) -> None:
        with ExitStack() as closing:  # each of them, even where closing another fails
            for file in self._files:
                closing.enter_context(named_in_errors(Path(file.name)))
                closing.callback(file.close)

    def write(self, source: bytes, target: bytes) -> None:
        """Write what `packed` made of some lines of both languages."""
        for file, lines in zip(self._files, (source, target), strict=True):
            with named_in_errors(Path(file.name)):
                file.write(lines)

    def finish(self, history: History) -> None:
        """Write the history."""
        history.write(self.folder.path / "history.json")


def packed(lines: list[str], compress: bool) -> bytes:
    """Lines as they stand in a file; what is packed in parts stands in it part after part."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text, FAST, mtime=0) if compress else text


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    for first in islice(file, 1):
        yield _ended(first.removeprefix(BYTE_ORDER_MARK))
    yield from map(_ended, file)


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"
