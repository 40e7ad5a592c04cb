"""Makes a text folder of the sentences of a table, with their labels, one a line, in its file `labels`."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import compress
from pathlib import Path

from ea_fairseq.data.examples import FORMS, plain_form, read_examples
from ea_fairseq.data.extract import verified
from ea_fairseq.data.history import History
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.selections import EveryNth, Sample
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import progress, writing

LABELS = "labels"


class Table:
    """A table, of its own or as ``Sources.get`` made a folder of it.

    Args:
        path: of the file or folder.
        form: a key of ``FORMS``, or plain.
    """

    def __init__(self, path: Path, form: str):
        """
        Raises:
            UserError: where it is not the one that was downloaded, or has no columns that are known.
        """
        if path.is_dir():
            self.path, self.source = verified(path)
        else:
            self.path, self.source = path, {"file": path.name, "sha256": sha256(path)}
        self.form = plain_form(path) if form == "plain" else FORMS[form]

    def examples(self) -> Iterator[tuple[str, ...]]:
        """Yields label and sentences of each example; raises UserError, naming the line that is wrong."""
        return read_examples(self.path, self.form)


def write_examples(table: Table, sides: tuple[str, ...], others: set, sample: Sample | None, output: Path) -> None:
    """Write the examples of a table, or a sample of them, to a new folder.

    Args:
        sides: what the sentences of an example are called.
        others: examples that are left out.

    Raises:
        UserError: where the table is wrong, or has another number of sentences.
    """
    found = len(table.form.sentences)
    if found != len(sides):
        raise UserError(f"{table.path} has {found} sentences an example, and must have {len(sides)}.")
    known = [example in others for example in progress(table.examples(), "checking")]
    total = known.count(False)
    history = History([table.source]).then("read", len(known), Counter({EveryNth.reason: sum(known)}), total)
    examples = compress(table.examples(), (not is_known for is_known in known))
    output.mkdir()
    with ExitStack() as stack:
        files = [output / LABELS, *(output / f"text.{side}" for side in sides)]
        writers = [stack.enter_context(writing(file)) for file in files]
        for example in sample.of(examples, total) if sample else examples:
            for write, text in zip(writers, example, strict=True):
                write(text)
    if sample:
        kept = min(sample.size, total)
        history = history.then("sample", total, Counter({sample.reason: total - kept}), kept)
    history.write(output / "history.json")


def take_table(
    output: Path,
    *,
    table: Path,
    sides: tuple[str, ...],
    form: str = "plain",
    without: Path | None = None,
    sample: Sample | None = None,
) -> None:
    """Makes a text folder of a table, or of a sample of it, without the examples of another table of that form.

    Raises:
        UserError: where a table is wrong, or has another number of sentences.
    """
    others = set(Table(without, form).examples()) if without else set()
    write_examples(Table(table, form), sides, others, sample, output)
