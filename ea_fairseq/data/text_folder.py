"""Text folders, which pass sentence pairs, or single sentences, from step to step.

A text folder holds `text.xx` and `text.yy`, or `text.xx.gz` and `text.yy.gz`, a sentence per line, and `history.json`.
"""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import GZIP_LEVEL, named_in_errors, open_bytes

HISTORY = "history.json"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Pair = tuple[bytes, ...]  # of lines with their line feeds, one of each language


@dataclass
class History:
    """The sources of a text, and for each step the pairs it read, those it dropped by reason, and those it kept."""

    sources: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)

    @classmethod
    def joined(cls, histories: list["History"]) -> "History":
        """The history of the concatenation of several texts."""
        sources = [source for history in histories for source in history.sources]
        return cls(sources, [step for history in histories for step in history.steps])

    def then(self, step: str, read: int, dropped: Counter, kept: int, **more: object) -> "History":
        """A copy of this history with one more step; ``more`` are further facts of that step."""
        counts = {"step": step, "read": read, "dropped": dict(dropped), "kept": kept}
        return History(self.sources, [*self.steps, counts | more])

    @property
    def kept(self) -> int:
        """The pairs that the last step kept."""
        return self.steps[-1]["kept"]

    def write(self, folder: Path) -> None:
        """Writes the history.json of a text folder."""
        (folder / HISTORY).write_text(json.dumps(vars(self), indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class TextFolder:
    """A folder of sentence pairs or sentences; ``languages`` are its files' suffixes, such as source and target."""

    path: Path
    languages: tuple[str, ...]

    def file(self, language: str) -> Path:
        """The file of a language, plain or gzipped."""
        plain = self.path / f"text.{language}"
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    @property
    def history(self) -> History:
        """The history in the folder's history.json."""
        return History(**json.loads((self.path / HISTORY).read_text(encoding="utf-8")))

    def pairs(self) -> Iterator[Pair]:
        """Yields the pairs in order; raises UserError if the two languages differ in length."""
        with ExitStack() as stack:
            files = [stack.enter_context(open_bytes(self.file(language))) for language in self.languages]
            try:
                yield from zip(*map(_lines, files), strict=True)
            except ValueError:
                raise UserError(
                    f"the two languages in {self.path} differ in length: remove it and run again."
                ) from None


@contextmanager
def writing_sides(folder: TextFolder, compress: bool = False) -> Iterator[Callable[..., None]]:
    """Makes a text folder and yields a function that appends lines to each side; an OSError names its file.

    Args:
        compress: whether the lines, which :func:`encode_lines` encodes, are gzipped.
    """
    folder.path.mkdir(parents=True)
    with ExitStack() as stack:
        files = []
        for language in folder.languages:
            path = folder.path / f"text.{language}{'.gz' * compress}"
            stack.enter_context(named_in_errors(path))
            files.append(stack.enter_context(path.open("wb")))

        def write(*sides: bytes) -> None:
            for file, lines in zip(files, sides, strict=True):
                with named_in_errors(Path(file.name)):
                    file.write(lines)

        yield write


def encode_lines(lines: list[str], compress: bool) -> bytes:
    """Encodes lines, gzipped if ``compress``; the bytes of several calls can be concatenated into one file."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text, GZIP_LEVEL, mtime=0) if compress else text


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a file without a byte order mark; adds the line feed that the last one may lack."""
    for number, line in enumerate(file):
        line = line if number else line.removeprefix(BYTE_ORDER_MARK)
        yield line if line.endswith(b"\n") else line + b"\n"
