"""The base class of tasks with time series, and their flags."""

import logging
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import II, MISSING

from ea_fairseq.errors import UserError
from ea_fairseq.options import name_of_flag
from ea_fairseq.series.dataset import SeriesDataset
from ea_fairseq.series.description import SeriesDescription
from ea_fairseq.series.folder import SPLITS, SeriesFolder, split
from ea_fairseq.series.ts_file import MAX_STEPS, SeriesFile

logger = logging.getLogger(__name__)
RANGES = {  # of the values of flags
    "valid_ratio": (0, 0.999),
    "split_seed": (0, 2**32 - 1),
    "subsample": (1, MAX_STEPS),
    "max_positions": (1, MAX_STEPS),
}


@dataclass
class TimeSeriesConfig(FairseqDataclass):
    """The flags that tasks with time series share."""

    data: str = field(default=MISSING, metadata={"help": "folder with train.ts, test.ts and perhaps valid.ts, or .gz"})
    normalize: ChoiceEnum(["channel", "none"]) = field(  # type: ignore[valid-type]
        default="channel",
        metadata={"help": "standardize each channel by the training set's mean and standard deviation, or do not"},
    )
    valid_ratio: float = field(
        default=0.3, metadata={"help": "share of the training set to validate on if there is no valid.ts"}
    )
    split_seed: Optional[int] = field(  # noqa: UP045  fairseq reads no other way of writing it
        default=None, metadata={"help": "seed of this split; by default --seed"}
    )
    subsample: int = field(default=1, metadata={"help": "read every Nth step of a series"})
    max_positions: Optional[int] = field(  # noqa: UP045
        default=None, metadata={"help": "maximum number of steps of a series; by default that of the longest series"}
    )
    seed: int = II("common.seed")


class TimeSeriesTask(FairseqTask):
    """Reads a folder of series, and describes its training set for models and checkpoints."""

    def __init__(self, cfg: TimeSeriesConfig, **kwargs: Any):
        super().__init__(cfg)
        self.check(cfg)
        self.folder = SeriesFolder(cfg.data, cfg.subsample)
        self._description: SeriesDescription | None = None
        self.state.add_factory("series", lambda: self.measure().state)

    def require_criterion(self, cfg: Any, kind: type[FairseqCriterion], name: str) -> None:
        """Raises UserError unless the requested criterion is of a kind, or comes from a user-dir."""
        found = CRITERION_REGISTRY[getattr(cfg, "_name", None) or cfg.criterion]
        if not issubclass(found, kind) and found.__module__.startswith(("fairseq.", "ea_fairseq.")):
            raise UserError(f"--task {self.cfg._name} needs --criterion {name}")

    @classmethod
    def check(cls, cfg: TimeSeriesConfig) -> None:
        """
        Raises:
            UserError: naming the flag whose value is out of range.
        """
        for name, (lowest, highest) in RANGES.items():
            value = getattr(cfg, name)
            if value is not None and not lowest <= value <= highest:
                raise UserError(f"{name_of_flag(name)} must be a number from {lowest:,} to {highest:,}, not {value}")

    def load_state_dict(self, state_dict: dict) -> None:
        """Uses a checkpoint's description in place of the training set's.

        Raises:
            UserError: if it is invalid.
        """
        description = self._description = SeriesDescription.from_state(state_dict.get("series"))
        self.state.merge_state_dict({"series": description.state})

    @property
    def description(self) -> SeriesDescription:
        """The description of the training set, or that in the loaded checkpoint."""
        if self._description is None:
            self._description = SeriesDescription.from_state(self.state.series)
        return self._description

    def measure(self) -> SeriesDescription:
        """Describes the training set without the validation split; the longest series is that of all files."""
        train = self.folder.read("train")
        series = [train.series[index] for index in self.indices("train")]
        longest = self.cfg.max_positions or max(file.longest for file in self.folder.files())
        return SeriesDescription.of(series, self.cfg.normalize == "channel", longest, train.labels)

    def indices(self, name: str) -> np.ndarray:
        """Returns the indices of a split's series in their file: ``train``, ``valid`` or ``test``.

        Raises:
            UserError: if there is no validation set.
        """
        if name == "test" or self.folder.find("valid"):
            return np.arange(len(self.folder.read(name).series))
        train = self.folder.read("train")
        if self.cfg.valid_ratio == 0:
            if name == "valid":
                raise UserError("with --valid-ratio 0 there is no validation set: give --disable-validation, too")
            return np.arange(len(train.series))
        seed = self.cfg.seed if self.cfg.split_seed is None else self.cfg.split_seed
        return split(train, self.cfg.valid_ratio, seed)[name == "valid"]

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> SeriesDataset:
        """Loads ``train``, ``valid`` or ``test``.

        Raises:
            UserError: naming the file that does not exist, or whose series do not fit the model.
        """
        if split not in SPLITS:
            raise UserError(f"there is no set {split!r} of time series: take one of {', '.join(SPLITS)}")
        from_train = split == "valid" and not self.folder.find("valid")
        file, indices = self.folder.read("train" if from_train else split), self.indices(split)
        self.require_fitting(file)
        if split == "train":
            self.warn_of_test_set()
        self.datasets[split] = self.build_dataset(file, indices, shuffle=split == "train")
        logger.info(f"{split}: {len(indices):,} series of {file.path}, {file.channels} channels")
        return self.datasets[split]

    def warn_of_test_set(self) -> None:
        """Warns if there is a test set that the trained model cannot be scored on."""
        try:
            if self.folder.find("test"):
                self.require_fitting(self.folder.read("test"))
        except UserError as error:
            logger.warning(f"the model cannot be scored on the test set: {error}")

    def build_dataset(self, file: SeriesFile, indices: np.ndarray, shuffle: bool) -> SeriesDataset:
        """Builds the examples of some of a file's series."""
        raise NotImplementedError

    def require_fitting(self, file: SeriesFile) -> None:
        """Checks that a file's series have the channels and lengths that the model supports.

        Raises:
            UserError: naming the file, if they do not.
        """
        if file.channels != self.description.channels:
            channels = self.description.channels
            raise UserError(f"{file.path} has {file.channels} channels, but the training data has {channels}")
        if file.longest > self.description.longest:
            raise UserError(
                f"{file.path} has a series of {file.longest:,} steps, but the model reads at most "
                f"{self.description.longest:,}: train with a higher --max-positions or with --subsample"
            )

    def get_batch_iterator(self, *args: Any, num_workers: int = 0, **kwargs: Any) -> EpochBatchIterating:
        """Returns fairseq's iterator without the processes of ``--num-workers``: series are already in memory."""
        return super().get_batch_iterator(*args, num_workers=0, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Builds the model and its output layer.

        Raises:
            UserError: if ``--arch`` is no model of time series.
        """
        from ea_fairseq.models.time_series import TimeSeriesModel

        model = super().build_model(cfg, from_checkpoint)
        if not isinstance(model, TimeSeriesModel):
            raise UserError(f"--arch {cfg.arch} is no model of time series: use one such as dc_transformer")
        self.add_output(model)
        return model

    def add_output(self, model: BaseFairseqModel) -> None:
        """Adds the task's output layer to the model."""
        raise NotImplementedError

    def max_positions(self) -> int:
        """Returns the maximum number of steps of a series."""
        return self.description.longest

    @property
    def source_dictionary(self) -> None:
        """None: series have no tokens."""

    target_dictionary = source_dictionary
