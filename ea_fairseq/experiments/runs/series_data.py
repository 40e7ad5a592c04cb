"""A folder of time series: what ea-fairseq prepare uea makes, or files as the archives have them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import Binarised


@dataclass(frozen=True)
class SeriesData(Binarised):
    """Time series with classes, or with numbers to predict."""

    task = "time_series_prediction"
    folder: Path

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder has time series."""
        return any(path.name.endswith((".ts", ".ts.gz")) for path in folder.iterdir())

    def file_names(self, subset: str) -> list[str]:
        """The file of a subset; series for validation may be those of the training set that are split off."""
        from ea_fairseq.series.folder import SPLITS, SeriesFolder

        if subset not in SPLITS:
            raise UserError(f"--subset: time series have {', '.join(SPLITS)}, not {subset}.")
        files = SeriesFolder(self.folder)
        path = files.find(subset) or (files.find("train") if subset == "valid" else None)
        return [path.name if path else f"{subset}.ts"]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """None: series have no words."""
        yield from ()
