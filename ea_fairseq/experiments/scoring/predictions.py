"""predictions.tsv: what an encoder predicted of each example of a subset, beside what was to be predicted."""

from collections.abc import Iterable
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.results import LARGEST, PREDICTIONS
from ea_fairseq.plain.own_file import own_file
from ea_fairseq.plain.text_lines import writing

Column = tuple[str, ...]


def write_predictions(path: Path, header: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    """Writes a line for each example."""
    with writing(path) as write_line:
        for row in (header, *rows):
            write_line("\t".join(map(str, row)))


def read_predictions(folder: Path) -> tuple[Column, Column]:
    """The two columns of a folder's predictions.tsv, of which the first is what was to be predicted.

    Raises:
        UserError: naming the file, where it is not there or not what ea-fairseq evaluate writes.
    """
    path = folder / PREDICTIONS
    if not path.is_file():
        raise UserError(f"there is no {path}: keep it next to results.json, or evaluate the model again.")
    file = own_file(path, LARGEST)
    try:
        _, *lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        labels, predictions = zip(*(line.split("\t") for line in lines), strict=True)
    except ValueError:
        raise UserError(f"{path} is not what ea-fairseq evaluate writes: evaluate the model again.") from None
    return labels, predictions
