"""Labelled sentences as data for fairseq's sentence_prediction."""

from pathlib import Path

from ea_fairseq.data.binarize import Description, quiet_fairseq, write_texts
from ea_fairseq.data.labels import Classes, Scores, write_numbers
from ea_fairseq.data.layout import SentenceLayout
from ea_fairseq.data.read_table import LABELS
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.errors import UserError

PREPARATION = ("task", "inputs", "tokenizer", "normalize", "lowercase", "subword", "models", "classes")
LABEL = "label"


def read_dictionary(path: Path):
    """fairseq's dictionary of a file; raises UserError where it is none."""
    from fairseq.data import Dictionary

    try:
        return Dictionary.load(str(path))
    except (ValueError, RuntimeError, UnicodeDecodeError, IndexError):
        raise UserError(f"{path} is not a dictionary of fairseq: take the one of ea-fairseq import-bert.") from None


def write_labels(output: Path, kind: Classes | Scores, files: dict[str, Path], workers: int) -> None:
    """Writes the labels of each split: numbers in SPLIT.label and, of classes, token ids and their dictionary.

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


def binarize_sentences(
    output: Path,
    *,
    folders: dict[str, TextFolder],
    labels: dict[str, Path],
    kind: Classes | Scores | None,
    dictionary: Path | None,
    threshold: int,
    workers: int,
    description: Description,
) -> None:
    """Writes labelled sentences as data to a new folder.

    Args:
        folders: of the text, by split.
        labels: text folders that have the labels, by split.
        kind: of the labels; None for the classes of the training set.
        dictionary: of fairseq; None for one of the training text.
        threshold: how often a word of that must occur.

    Raises:
        UserError: where a label is none, or the dictionary.
    """
    quiet_fairseq()
    from ea_fairseq.data.binary_text import make_dictionary

    layout = SentenceLayout(folders["train"].languages)
    files = {split: folder / LABELS for split, folder in labels.items()}
    kind = kind or Classes.found_in(files["train"])
    texts = [folders["train"].file(side) for side in layout.sides]
    words = read_dictionary(dictionary) if dictionary else make_dictionary(texts, workers, threshold)
    output.mkdir()
    write_labels(output / LABEL, kind, files, workers)
    write_texts(output, layout, folders, [words] * len(layout.sides), workers)
    more = {"inputs": len(layout.sides), "classes": None if isinstance(kind, Scores) else kind.names}
    description.write(output, layout, folders, more, PREPARATION)
