"""The base of tasks whose folder has ``train``, ``test`` and perhaps ``valid``, and how to do without ``valid``."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ea_fairseq.errors import UserError
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.split_folder import SPLITS, SplitFolder
from ea_fairseq.tasks.described import D, DescribedTask

logger = logging.getLogger(__name__)


@dataclass
class FolderConfig(FairseqDataclass):
    """The flags that these tasks share."""

    split_seed: Optional[int] = field(  # noqa: UP045  fairseq reads no other way of writing it
        default=None, metadata={"help": "seed of the validation set that is split off; by default --seed"}
    )
    seed: int = II("common.seed")


class FolderTask(DescribedTask[D]):
    """Reads the splits of a folder, and takes a part of the training set to validate on if there is no other set.

    Its flags have ``valid_ratio``. Its examples have a path, a length, ``labels`` (None without classes) and
    ``targets`` (None if there is nothing to predict).

    Args:
        noun: what messages call the examples, a class attribute.
        ranges: lowest and highest value of each numeric flag, a class attribute.
        folder: with the files of the splits.
    """

    noun: ClassVar[str]
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"valid_ratio": (0, 0.999), "split_seed": (0, 2**32 - 1)}

    def __init__(self, cfg: Any, folder: SplitFolder, **kwargs: Any):
        super().__init__(cfg)
        self.check(cfg)
        self.folder = folder

    @classmethod
    def check(cls, cfg: Any) -> None:
        """Checks the values of flags.

        Raises:
            UserError: naming the flag whose value is out of range.
        """
        for name, (lowest, highest) in cls.ranges.items():
            value = getattr(cfg, name)
            if value is not None and not lowest <= value <= highest:
                raise UserError(f"{flag_of(name)} must be a number from {lowest:,} to {highest:,}, not {value}")

    def indices(self, name: str) -> np.ndarray:
        """Returns the indices of a split's examples in their file: ``train``, ``valid`` or ``test``.

        Raises:
            UserError: if there is no validation set.
        """
        if name == "test" or self.folder.find("valid"):
            return np.arange(len(self.folder.read(name)))
        train = self.folder.read("train")
        if self.cfg.valid_ratio == 0:
            if name == "valid":
                raise UserError("with --valid-ratio 0 there is no validation set: give --disable-validation, too")
            return np.arange(len(train))
        seed = self.cfg.seed if self.cfg.split_seed is None else self.cfg.split_seed
        return split_off(train, self.cfg.valid_ratio, seed)[name == "valid"]

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Loads ``train``, ``valid`` or ``test``.

        Raises:
            UserError: naming the file that does not exist, or whose examples do not fit the model.
        """
        if split not in SPLITS:
            raise UserError(f"there is no set {split!r} of {self.noun}: take one of {', '.join(SPLITS)}")
        file, indices = self.folder.read(self.folder.origin(split)), self.indices(split)
        self.require_fitting(file)
        if split == "train":
            self.warn_of_test_set()
        self.datasets[split] = self.build_dataset(file, indices, training=split == "train")
        logger.info(f"{split}: {len(indices):,} {self.noun} of {file.path}")
        return self.datasets[split]

    def warn_of_test_set(self) -> None:
        """Warns if there is a test set that the trained model cannot be scored on."""
        try:
            if self.folder.find("test"):
                self.require_fitting(self.folder.read("test"))
        except UserError as error:
            logger.warning(f"the model cannot be scored on the test set: {error}")

    def build_dataset(self, file: Any, indices: np.ndarray, training: bool) -> FairseqDataset:
        """Builds a data set of some of a file's examples."""
        raise NotImplementedError

    def require_fitting(self, file: Any) -> None:
        """Raises UserError, which names the file, if its examples do not fit the model."""
        raise NotImplementedError


def require_known_labels(file: Any, known: Sequence[str]) -> None:
    """Raises UserError if a file has a class that the training set does not have."""
    unknown = sorted({*(file.labels or ())}.difference(known))
    if unknown:
        raise UserError(f"{file.path} has the class {unknown[0]!r}, which the training set does not have")


def split_off(file: Any, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices of a training and a validation set, drawn from a file, stratified if it has classes.

    Raises:
        UserError: if a set would be empty, or too small for its classes.
    """
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit  # takes a second

    kind = ShuffleSplit if file.labels is None else StratifiedShuffleSplit
    try:
        ((train, valid),) = kind(1, test_size=ratio, random_state=seed).split(range(len(file)), file.targets)
    except ValueError as error:
        reason = str(error).partition(". ")[0].rstrip(".")
        raise UserError(f"--valid-ratio {ratio} of {file.path} cannot be split off: {reason}") from None
    return np.sort(train), np.sort(valid)
