"""Make a text folder of the sentences of a table, with their labels, one a line, in its file `labels`."""

import argparse
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
from ea_fairseq.plain.commands import run
from ea_fairseq.plain.text_lines import progress, writing

LABELS = "labels"


class Table:
    """A table, of its own or as download.py made a folder of it.

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


def write_examples(table: Table, sides: list[str], others: set, sample: Sample | None, output: Path) -> None:
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


def main() -> None:
    """Read it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=("plain", *FORMS), default="plain", help="what its columns are")
    parser.add_argument("--sides", nargs="+", required=True, metavar="SIDE", help="what the sentences are called")
    parser.add_argument("--without", type=Path, help="leave out the examples of this table, of the same form")
    parser.add_argument("--sample", type=int, help="draw this many examples at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of that draw")
    parser.add_argument("input", type=Path, help="a table, or the folder that download.py made of one")
    parser.add_argument("output", type=Path, help="text folder to make")
    args = parser.parse_args()
    others = set(Table(args.without, args.form).examples()) if args.without else set()
    sample = Sample(args.sample, args.seed) if args.sample else None
    write_examples(Table(args.input, args.form), args.sides, others, sample, args.output)


if __name__ == "__main__":
    run(main)
