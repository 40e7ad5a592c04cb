"""A folder of time series: ``train.ts``, ``test.ts`` and perhaps ``valid.ts``, or named as in archives."""

from collections.abc import Iterator
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.series.ts_file import SeriesFile, read_ts

SPLITS = ("train", "valid", "test")


class SeriesFolder:
    """The files of a folder; each is read once, when it is needed.

    Args:
        subsample: N, to read every Nth step.
    """

    def __init__(self, folder: str | Path, subsample: int = 1):
        self.folder, self.subsample = Path(folder), subsample
        self._read: dict[str, SeriesFile] = {}

    def find(self, split: str) -> Path | None:
        """Returns the file of a split, or None: ``train.ts``, ``NAME_TRAIN.ts`` or one of these with ``.gz``.

        Raises:
            UserError: if there are several, or no folder.
        """
        if not self.folder.is_dir():
            raise UserError(f"there is no folder {self.folder}: name one that has train.ts or train.ts.gz")
        names = (f"{split}.ts", f"{split}.ts.gz", f"*_{split.upper()}.ts", f"*_{split.upper()}.ts.gz")
        found = sorted({path for name in names for path in self.folder.glob(name)})
        if len(found) > 1:
            raise UserError(f"{self.folder} has both {found[0].name} and {found[1].name}: leave one of them there")
        return found[0] if found else None

    def read(self, split: str) -> SeriesFile:
        """Returns the series of a split.

        Raises:
            UserError: naming the file that is missing or malformed.
        """
        if split not in self._read:
            path = self.find(split)
            if path is None:
                raise UserError(f"there is no {split}.ts or {split}.ts.gz in {self.folder}")
            found = read_ts(path)
            series = [one[:: self.subsample].copy() for one in found.series]
            self._read[split] = SeriesFile(path, series, found.labels, found.targets)
        return self._read[split]

    def files(self) -> Iterator[SeriesFile]:
        """Yields all files that exist, the training set first."""
        return (self.read(split) for split in SPLITS if split == "train" or self.find(split))
