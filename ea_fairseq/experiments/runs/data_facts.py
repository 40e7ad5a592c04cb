"""Binarised data of whichever of fairseq's tasks."""

from pathlib import Path

from ea_fairseq.experiments.runs.binarised import Binarised
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.experiments.runs.encoder_data import SentenceData, TextData
from ea_fairseq.experiments.runs.series_data import SeriesData


def read_data(folder: Path) -> Binarised:
    """Binarised data of whichever task; folders that are none of the others' are taken for translation.

    Raises:
        UserError: naming the folder or file that is not there or is something else.
    """
    if (folder / "input0").is_dir():
        return SentenceData(folder)
    if (folder / "dict.txt").is_file():
        return TextData(folder)
    if folder.is_dir() and SeriesData.is_in(folder):
        return SeriesData(folder)
    return DataBin.read(folder)
