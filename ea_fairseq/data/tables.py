"""Tables of labelled sentences, or pairs of sentences: one example per line, columns separated by tabs.

A table becomes a text folder of its sentences; their labels are in its file ``labels``, one per line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from ea_fairseq.data.archives import verified
from ea_fairseq.data.extract import FormatError
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.text_folder import History
from ea_fairseq.data.transform import EveryNth, Sample
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import checked_lines, find_splits, progress, tidy, writing

LABELS = "labels"
BRACKETS = {"-lrb-": "(", "-rrb-": ")", r"\/": "/", r"\*": "*"}  # of the Penn treebank
ESCAPES = re.compile("|".join(map(re.escape, BRACKETS)))
LABEL = re.compile(r"[^\s\0-\x1f\x7f]{1,100}")
MAX_SENTENCES = 2


@dataclass(frozen=True)
class Form:
    """The columns of a table.

    Args:
        label: number of the label's column.
        sentences: numbers of the sentences' columns.
        header: whether the first line names the columns; then all lines must have as many.
        separator: the separator of columns.
        treebank: whether brackets are written as in the Penn treebank, -lrb- for (.
    """

    label: int
    sentences: tuple[int, ...]
    header: bool = True
    separator: str = "\t"
    treebank: bool = False

    @property
    def last(self) -> int:
        """The number of the last column that is needed."""
        return max(self.label, *self.sentences)

    def split(self, line: str) -> list[str]:
        """Splits a line into columns; the last needed one takes the rest if the separator is a space."""
        line = line.removesuffix("\n").removesuffix("\r")
        return line.split(self.separator, self.last if self.separator == " " else -1)

    def example(self, line: str, columns: int) -> tuple[str, ...]:
        """Returns the label and sentences of a line, which must have this number of columns (or more without a header).

        Raises:
            FormatError: saying what is wrong with the line.
        """
        fields = self.split(line)
        if len(fields) < columns or (self.header and len(fields) > columns):
            separators = "spaces" if self.separator == " " else "tabs"
            raise FormatError(f"has {len(fields)} columns separated by {separators}, not {columns}.")
        label, *sentences = (" ".join(tidy(fields[column]).split()) for column in (self.label, *self.sentences))
        if not LABEL.fullmatch(label):
            raise FormatError("has no label of at most 100 characters without a space.")
        if not all(sentences):
            raise FormatError("has an empty sentence.")
        if self.treebank:
            sentences = [ESCAPES.sub(lambda escape: BRACKETS[escape[0]], sentence) for sentence in sentences]
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


def plain_form(path: Path) -> Form:
    """Returns the form of a table ``label<TAB>sentence[<TAB>sentence2]`` with a header.

    Raises:
        UserError: if its first line has other columns.
    """
    _, first = next(read_table(path), (1, ""))
    columns = len(first.split("\t"))
    if columns - 1 not in range(1, MAX_SENTENCES + 1):
        raise UserError(f"line 1 of {path} must name the columns, a label and one or two sentences, separated by tabs.")
    return Form(0, tuple(range(1, columns)))


def read_table(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a plain or gzipped table, with their numbers; raises UserError as ``checked_lines`` does."""
    return ((number, line.decode("utf-8-sig" if number == 1 else "utf-8")) for number, line in checked_lines(path))


def read_examples(path: Path, form: Form) -> Iterator[tuple[str, ...]]:
    """Yields the examples of a table: label, sentences.

    Raises:
        UserError: naming the line that is wrong.
    """
    lines = read_table(path)
    columns = len(form.split(next(lines, (1, ""))[1])) if form.header else form.last + 1
    number = 0
    for number, line in lines:
        try:
            yield form.example(line, columns)
        except FormatError as error:
            raise UserError(f"line {number} of {path} {error}") from None
    if number == 0:
        raise UserError(f"{path} has no example: put one on each line.")


def check_tables(folder: Path) -> tuple[dict[str, Path], int]:
    """Returns a folder's tables train|valid|test.tsv (plain or .gz, test is optional) and the sentences per example.

    Raises:
        UserError: if a table is missing or there twice, or its number of sentences is not that of train.
    """
    tables = find_splits(folder, "tsv")
    sentences = {split: len(plain_form(path).sentences) for split, path in tables.items()}
    for split, path in tables.items():
        if sentences[split] != sentences["train"]:
            raise UserError(f"{path} and {tables['train']} differ in their number of sentences per example.")
    return tables, sentences["train"]


def take_table(
    output: Path,
    *,
    table: Path,
    sides: tuple[str, ...],
    form: str = "plain",
    without: Path | None = None,
    sample: Sample | None = None,
) -> None:
    """Makes a text folder from a table, or from a sample of it.

    Args:
        table: a file, or the folder that ``Sources.get`` made of one.
        sides: names of the sentences of an example.
        form: a key of ``FORMS``, or plain.
        without: another table of that form, whose examples are left out.

    Raises:
        UserError: if a table is wrong, or has a different number of sentences.
    """
    others = set[tuple[str, ...]]()
    if without:
        path, columns, _ = file_and_form(without, form)
        others.update(read_examples(path, columns))
    path, columns, source = file_and_form(table, form)
    if len(columns.sentences) != len(sides):
        raise UserError(f"{path} has {len(columns.sentences)} sentences per example, but must have {len(sides)}.")
    is_taken = [example not in others for example in progress(read_examples(path, columns), "checking")]
    total = sum(is_taken)
    left_out = Counter({EveryNth.reason: len(is_taken) - total})
    history = History([source]).then("read", len(is_taken), left_out, total)
    examples = compress(read_examples(path, columns), is_taken)
    write_examples(output, sides, sample.of(examples, total) if sample else examples)
    if sample:
        kept = min(sample.size, total)
        history = history.then("sample", total, Counter({sample.reason: total - kept}), kept)
    history.write(output)


def write_examples(output: Path, sides: tuple[str, ...], examples: Iterable[tuple[str, ...]]) -> None:
    """Makes a text folder of examples, each a label and its sentences; does not write history.json."""
    output.mkdir()
    with ExitStack() as stack:
        files = [output / LABELS, *(output / f"text.{side}" for side in sides)]
        writers = [stack.enter_context(writing(file)) for file in files]
        for example in examples:
            for write, text in zip(writers, example, strict=True):
                write(text)


def file_and_form(table: Path, form: str) -> tuple[Path, Form, dict]:
    """Returns a table's file, form and source for the history; raises UserError if the file is not the verified one."""
    path, source = verified(table) if table.is_dir() else (table, {"file": table.name, "sha256": sha256(table)})
    return path, plain_form(path) if form == "plain" else FORMS[form], source
