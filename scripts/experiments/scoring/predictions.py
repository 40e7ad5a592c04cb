"""predictions.tsv: what an encoder predicted of each example of a subset, beside what was to be predicted."""

from collections.abc import Iterable
from pathlib import Path

from step import StepError
from text_lines import writing

from experiments.own_file import own_file
from experiments.scoring.results import LARGEST, PREDICTIONS

Column = tuple[str, ...]


def write_predictions(path: Path, header: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    """Writes a line for each example."""
    with writing(path) as write_line:
        for row in (header, *rows):
            write_line("\t".join(map(str, row)))


def read_predictions(folder: Path) -> tuple[Column, Column]:
    """The two columns of a folder's predictions.tsv, of which the first is what was to be predicted.

    Raises:
        StepError: naming the file, where it is not there or not what evaluate.sh writes.
    """
    path = folder / PREDICTIONS
    if not path.is_file():
        raise StepError(f"there is no {path}: keep it beside results.json, or evaluate the model again.")
    try:
        _, *lines = own_file(path, LARGEST).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        labels, predictions = zip(*(line.split("\t") for line in lines), strict=True)
    except ValueError:
        raise StepError(f"{path} is not what scripts/evaluate.sh writes: evaluate the model again.") from None
    return labels, predictions
