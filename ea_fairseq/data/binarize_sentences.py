"""Binarise labelled sentences for fairseq's sentence_prediction, and describe them in the two JSON files of data."""

import argparse
import logging
import warnings
from pathlib import Path

from ea_fairseq.data.binarize import add_data_options, describe, write_texts
from ea_fairseq.data.labels import Classes, Scores, write_numbers
from ea_fairseq.data.layout import SentenceLayout
from ea_fairseq.data.manifest import SPLITS
from ea_fairseq.data.read_table import LABELS
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run

PREPARATION = ("task", "inputs", "tokenizer", "normalize", "lowercase", "subword", "models", "classes")
LABEL = "label"


def read_dictionary(path: Path):
    """fairseq's dictionary of a file; raises UserError where it is none."""
    from fairseq.data import Dictionary

    try:
        return Dictionary.load(str(path))
    except (ValueError, RuntimeError, UnicodeDecodeError, IndexError):
        raise UserError(f"{path} is not a dictionary of fairseq: take the one of import_bert.py.") from None


def write_labels(output: Path, kind: Classes | Scores, files: dict[str, Path], workers: int) -> None:
    """Write the labels of each split: numbers in SPLIT.label and, of classes, token ids and their dictionary.

    Raises:
        UserError: naming a label that is none.
    """
    from fairseq.data import Dictionary

    from ea_fairseq.data.binary_text import write_token_ids

    output.mkdir()
    for split, file in files.items():
        write_numbers(file, kind, split, output / f"{split}.label")
    if isinstance(kind, Scores):
        return
    dictionary = Dictionary()
    for number in range(len(kind.names)):
        dictionary.add_symbol(str(number))
    dictionary.save(str(output / "dict.txt"))
    for split in files:
        numbers = output / f"{split}.label"
        lines = numbers.read_bytes().count(b"\n")
        write_token_ids(numbers, lines, dictionary, output / split, workers)


def make_words(args: argparse.Namespace, texts: list[Path]):
    """The dictionary that was given, or one of the training text."""
    logging.getLogger("fairseq").setLevel("WARNING")
    warnings.simplefilter("ignore")
    from ea_fairseq.data.binary_text import make_dictionary

    if args.dictionary:
        return read_dictionary(args.dictionary)
    return make_dictionary(texts, args.workers, args.threshold)


def main() -> None:
    """Binarise and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", nargs="+", required=True, metavar="SIDE", help="input0, and for pairs input1")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}", type=Path, nargs=2, required=split != "test", help="text folder, and that of its labels"
        )
    labels = parser.add_mutually_exclusive_group()
    labels.add_argument("--classes", nargs="+", help="in the order of their numbers (default: those of train)")
    labels.add_argument("--regression", action="store_true", help="labels are scores")
    parser.add_argument("--largest", type=float, help="scores are divided by it")
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--dictionary", type=Path, help="of fairseq (default: one of the training text)")
    words.add_argument("--threshold", type=int, default=1, help="how often a word of it must occur")
    add_data_options(parser)
    args = parser.parse_args()

    layout = SentenceLayout(tuple(args.sides))
    given = {split: getattr(args, split) for split in SPLITS if getattr(args, split)}
    folders = {split: TextFolder(text, layout.sides) for split, (text, _) in given.items()}
    files = {split: folder / LABELS for split, (_, folder) in given.items()}
    kind = Scores(args.largest) if args.regression else None
    kind = kind or (Classes(args.classes) if args.classes else Classes.found_in(files["train"]))
    dictionary = make_words(args, [folders["train"].file(side) for side in layout.sides])
    args.output.mkdir()
    write_labels(args.output / LABEL, kind, files, args.workers)
    write_texts(args.output, layout, folders, [dictionary] * len(layout.sides), args.workers)
    more = {"inputs": len(layout.sides), "classes": None if args.regression else kind.names}
    describe(args, layout, folders, more, PREPARATION)


if __name__ == "__main__":
    run(main)
