"""A folder of time series: ``train.ts``, ``test.ts`` and perhaps ``valid.ts``, or named as in archives."""

from pathlib import Path

from ea_fairseq.plain.split_folder import SplitFolder
from ea_fairseq.series.ts_file import SeriesFile, read_ts


class SeriesFolder(SplitFolder[SeriesFile]):
    """The files of a folder; each is read once, when it is needed.

    Args:
        subsample: N, to read every Nth step.
    """

    ending = "ts"

    def __init__(self, folder: str | Path, subsample: int = 1):
        super().__init__(folder)
        self.subsample = subsample

    def patterns(self, split: str) -> list[str]:
        """Returns the patterns that the name of a split's file may match, also as in archives: ``NAME_TRAIN.ts``."""
        return [*self.names(split), *self.names(f"*_{split.upper()}")]

    def load(self, path: Path, split: str) -> SeriesFile:
        """Reads the series of a split; raises UserError if the file is malformed."""
        found = read_ts(path)
        series = [one[:: self.subsample].copy() for one in found.series]
        return SeriesFile(path, series, found.labels, found.targets)
