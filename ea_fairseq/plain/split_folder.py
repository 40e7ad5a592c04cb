"""A folder with a file for each split of a data set: train, test and perhaps valid."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from ea_fairseq.errors import UserError

S = TypeVar("S")
SPLITS = ("train", "valid", "test")


class SplitFolder(Generic[S]):
    """The files of a folder; each is read once, when it is needed.

    Args:
        ending: of the names of files, which may also end in ``.gz``; a class attribute.
    """

    ending: ClassVar[str]

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._read: dict[str, S] = {}

    def names(self, split: str) -> list[str]:
        """Returns the names that the file of a split usually has."""
        return [f"{split}.{self.ending}", f"{split}.{self.ending}.gz"]

    def patterns(self, split: str) -> list[str]:
        """Returns the patterns that the name of a split's file may match."""
        return self.names(split)

    def find(self, split: str) -> Path | None:
        """Returns the file of a split, or None if there is none.

        Raises:
            UserError: if there are several, or no folder.
        """
        if not self.folder.is_dir():
            raise UserError(f"there is no folder {self.folder}: name one that has {' or '.join(self.names('train'))}")
        patterns = self.patterns(split)
        found = sorted(path for path in self.folder.iterdir() if any(fnmatchcase(path.name, one) for one in patterns))
        if len(found) > 1:
            raise UserError(f"{self.folder} has both {found[0].name} and {found[1].name}: leave one of them there")
        return found[0] if found else None

    def origin(self, split: str) -> str:
        """Returns the split whose file has the examples: a missing validation set is split off the training set."""
        return "train" if split == "valid" and not self.find(split) else split

    def read(self, split: str) -> S:
        """Returns the examples of a split.

        Raises:
            UserError: naming the file that is missing or malformed.
        """
        if split not in self._read:
            path = self.find(split)
            if path is None:
                raise UserError(f"there is no {' or '.join(self.names(split))} in {self.folder}")
            self._read[split] = self.load(path, split)
        return self._read[split]

    def files(self) -> Iterator[S]:
        """Yields the examples of all splits that have a file, the training set first."""
        return (self.read(split) for split in SPLITS if split == "train" or self.find(split))

    def load(self, path: Path, split: str) -> S:
        """Reads the file of a split; raises UserError if it is malformed."""
        raise NotImplementedError
