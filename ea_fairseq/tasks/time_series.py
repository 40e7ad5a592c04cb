"""What the tasks with time series share."""

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
LIMITS = {  # of the values of flags
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
        metadata={"help": "take off the training set's mean and divide by its deviation, of each channel, or do not"},
    )
    valid_ratio: float = field(
        default=0.3, metadata={"help": "share of the training set that is split off where there is no valid.ts"}
    )
    split_seed: Optional[int] = field(  # noqa: UP045  fairseq reads no other way of writing it
        default=None, metadata={"help": "seed by which it is split off; by default that of the training"}
    )
    subsample: int = field(default=1, metadata={"help": "read every N-th step of a series"})
    max_positions: Optional[int] = field(  # noqa: UP045
        default=None, metadata={"help": "most steps that models read; by default those of the longest series"}
    )
    seed: int = II("common.seed")


class TimeSeriesTask(FairseqTask):
    """Reads a folder of series, and describes its training set for models and checkpoints."""

    has_targets = True  # whether series must have what the task predicts

    def __init__(self, cfg: TimeSeriesConfig, **kwargs: Any):
        super().__init__(cfg)
        self.check(cfg)
        self.folder = SeriesFolder(cfg.data, cfg.subsample)
        self._description: SeriesDescription | None = None
        self.state.add_factory("series", lambda: self.measure().state)

    def require_criterion(self, cfg: Any, kind: type[FairseqCriterion], name: str) -> None:
        """Raises UserError unless the criterion that is asked for is of a kind, or of a user-dir of one's own."""
        found = CRITERION_REGISTRY[getattr(cfg, "_name", None) or cfg.criterion]
        if not issubclass(found, kind) and found.__module__.startswith(("fairseq.", "ea_fairseq.")):
            raise UserError(f"--task {self.cfg._name} needs --criterion {name}")

    @classmethod
    def check(cls, cfg: TimeSeriesConfig) -> None:
        """
        Raises:
            UserError: naming the flag whose value is out of range.
        """
        for name, (lowest, highest) in LIMITS.items():
            value = getattr(cfg, name)
            if value is not None and not lowest <= value <= highest:
                raise UserError(f"{name_of_flag(name)} must be a number from {lowest:,} to {highest:,}, not {value}")

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes the description from a checkpoint, in place of that of a training set.

        Raises:
            UserError: where it cannot be right.
        """
        description = self._description = SeriesDescription.from_state(state_dict.get("series"))
        self.state.merge_state_dict({"series": description.state})

    @property
    def description(self) -> SeriesDescription:
        """Of the training set, or of that of the checkpoint that was loaded."""
        if self._description is None:
            self._description = SeriesDescription.from_state(self.state.series)
        return self._description

    def measure(self) -> SeriesDescription:
        """The description of the training set, without what is split off; its longest series is that of all files."""
        train = self.folder.read("train")
        series = [train.series[index] for index in self.indices("train")]
        longest = self.cfg.max_positions or max(file.longest for file in self.folder.files())
        return SeriesDescription.of(series, self.cfg.normalize == "channel", longest, train.labels)

    def indices(self, name: str) -> np.ndarray:
        """Which series of its file a split has: ``train``, ``valid`` or ``test``.

        Raises:
            UserError: where there is no validation set.
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
            UserError: naming the file that is not there, or whose series are not those that the model is for.
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
        """Warns if there is a test set that no model of this training can be scored on."""
        try:
            if self.folder.find("test"):
                self.require_fitting(self.folder.read("test"))
        except UserError as error:
            logger.warning(f"the model cannot be scored on the test set: {error}")

    def build_dataset(self, file: SeriesFile, indices: np.ndarray, shuffle: bool) -> SeriesDataset:
        """The examples of some of a file's series."""
        raise NotImplementedError

    def require_fitting(self, file: SeriesFile) -> None:
        """
        Raises:
            UserError: naming the file, where its series are not like those of the training set.
        """
        if file.channels != self.description.channels:
            channels = self.description.channels
            raise UserError(f"{file.path} has {file.channels} channels, and what the model was trained on {channels}")
        if file.longest > self.description.longest:
            raise UserError(
                f"{file.path} has a series of {file.longest:,} steps, and models read {self.description.longest:,}: "
                "train with more --max-positions, or with --subsample"
            )

    def get_batch_iterator(self, *args: Any, num_workers: int = 0, **kwargs: Any) -> EpochBatchIterating:
        """fairseq's iterator, without the processes of ``--num-workers``: series are in memory, ready to be read."""
        return super().get_batch_iterator(*args, num_workers=0, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> BaseFairseqModel:
        """The model, as wide at both ends as the data set asks for.

        Raises:
            UserError: where ``--arch`` is no model of time series.
        """
        from ea_fairseq.models.time_series import TimeSeriesModel

        model = super().build_model(cfg, from_checkpoint)
        if not isinstance(model, TimeSeriesModel):
            raise UserError(f"--arch {cfg.arch} reads no time series: take dc_transformer or another of its kind")
        self.add_output(model)
        return model

    def add_output(self, model: BaseFairseqModel) -> None:
        """Gives the model the layer that the task trains on its representation."""
        raise NotImplementedError

    def max_positions(self) -> int:
        """The most steps of a series."""
        return self.description.longest

    @property
    def source_dictionary(self) -> None:
        """None: series have no words."""

    target_dictionary = source_dictionary
