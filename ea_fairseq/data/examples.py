"""Tables of labelled sentences, or pairs of sentences: one example a line, columns separated by tabs."""

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.data.formats import FormatError
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import open_bytes, tidy

BRACKETS = {"-lrb-": "(", "-rrb-": ")", r"\/": "/", r"\*": "*"}  # of the Penn treebank
LABEL = re.compile(r"[^\s\0-\x1f\x7f]{1,100}")
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
MAX_LINE = 10_000_000  # bytes
MAX_SENTENCES = 2


@dataclass(frozen=True)
class Form:
    """What the columns of a table are.

    Args:
        label: number of the label's column.
        sentences: numbers of the sentences' columns.
        header: whether the first line names the columns; then all lines have as many.
        separator: of columns.
        treebank: whether brackets are written as the Penn treebank does, -lrb- for (.
    """

    label: int
    sentences: tuple[int, ...]
    header: bool = True
    separator: str = "\t"
    treebank: bool = False

    def split(self, line: str) -> list[str]:
        """The columns of a line; the last needed one takes the rest where the separator is a space."""
        line = line.removesuffix("\n").removesuffix("\r")
        return line.split(self.separator, max(self.label, *self.sentences) if self.separator == " " else -1)

    def example(self, line: str, columns: int) -> tuple[str, ...]:
        """The label and the sentences of a line that must have so many columns or, without a header, at least.

        Raises:
            FormatError: saying what is wrong with the line.
        """
        fields = self.split(line)
        if len(fields) < columns or (self.header and len(fields) > columns):
            raise FormatError(f"has {len(fields)} columns separated by tabs, not {columns}.")
        label, *sentences = (" ".join(tidy(fields[column]).split()) for column in (self.label, *self.sentences))
        if not LABEL.fullmatch(label):
            raise FormatError("has no label of at most 100 characters without a space.")
        if not all(sentences):
            raise FormatError("has an empty sentence.")
        if self.treebank:
            sentences = [" ".join(map(without_escapes, sentence.split())) for sentence in sentences]
        return label, *sentences


FORMS = {
    "cola": Form(1, (3,), header=False),
    "sst-2": Form(1, (0,)),
    "mrpc": Form(0, (3, 4)),
    "rte": Form(3, (1, 2)),
    "wnli": Form(3, (1, 2)),
    "sts-b": Form(9, (7, 8)),
    "sts-b-test": Form(4, (5, 6), header=False),
    "sst-5": Form(0, (1,), header=False, separator=" ", treebank=True),
}


def without_escapes(word: str) -> str:
    """A word of the Penn treebank as it was written."""
    for escape, sign in BRACKETS.items():
        word = word.replace(escape, sign)
    return word


def plain_form(path: Path) -> Form:
    """The form of a table ``label<TAB>sentence[<TAB>sentence2]`` with a header.

    Raises:
        UserError: where its first line has other columns.
    """
    _, first = next(read_table(path), (1, ""))
    columns = len(first.split("\t"))
    if columns - 1 not in range(1, MAX_SENTENCES + 1):
        raise UserError(f"line 1 of {path} must name the columns, a label and one or two sentences, separated by tabs.")
    return Form(0, tuple(range(1, columns)))


def read_table(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a plain or gzipped table, with their numbers.

    Raises:
        UserError: naming the line that is not UTF-8 or too long, or the file that is damaged.
    """
    number = 0
    try:
        with open_bytes(path) as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise UserError(f"line {number} of {path} has more than {MAX_LINE:,} bytes: is it a table?")
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise UserError(f"line {number} of {path} is not UTF-8: convert the file with iconv.") from None
    except DAMAGE:
        raise UserError(f"{path} is not a whole gzip file: fetch or compress it again.") from None


def read_examples(path: Path, form: Form) -> Iterator[tuple[str, ...]]:
    """Yields the examples of a table: label, sentences.

    Raises:
        UserError: naming the line that is wrong.
    """
    lines = read_table(path)
    columns = max(form.label, *form.sentences) + 1
    if form.header:
        columns = len(form.split(next(lines, (1, ""))[1]))
    number = 0
    for number, line in lines:
        try:
            yield form.example(line, columns)
        except FormatError as error:
            raise UserError(f"line {number} of {path} {error}") from None
    if number == 0:
        raise UserError(f"{path} has no example: put one a line.")
