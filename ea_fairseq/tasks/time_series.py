"""The base class of tasks with time series, and their flags."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel
from omegaconf import MISSING

from ea_fairseq.errors import UserError
from ea_fairseq.series.description import SeriesDescription
from ea_fairseq.series.folder import SeriesFolder
from ea_fairseq.series.ts_file import MAX_STEPS, SeriesFile
from ea_fairseq.tasks.folder import FolderConfig, FolderTask


@dataclass
class TimeSeriesConfig(FolderConfig):
    """The flags that tasks with time series share."""

    data: str = field(default=MISSING, metadata={"help": "folder with train.ts, test.ts and perhaps valid.ts, or .gz"})
    normalize: ChoiceEnum(["channel", "none"]) = field(  # type: ignore[valid-type]
        default="channel",
        metadata={"help": "standardize each channel by the training set's mean and standard deviation, or do not"},
    )
    valid_ratio: float = field(
        default=0.3, metadata={"help": "share of the training set to validate on if there is no valid.ts"}
    )
    subsample: int = field(default=1, metadata={"help": "read every Nth step of a series"})
    max_positions: Optional[int] = field(  # noqa: UP045  fairseq reads no other way of writing it
        default=None, metadata={"help": "maximum number of steps of a series; by default that of the longest series"}
    )


class TimeSeriesTask(FolderTask[SeriesDescription]):
    """Reads a folder of series, and describes its training set for models and checkpoints."""

    describes, state_name, noun = SeriesDescription, "series", "time series"
    ranges = FolderTask.ranges | {"subsample": (1, MAX_STEPS), "max_positions": (1, MAX_STEPS)}

    def __init__(self, cfg: TimeSeriesConfig, **kwargs: Any):
        super().__init__(cfg, SeriesFolder(cfg.data, cfg.subsample))

    def measure(self) -> SeriesDescription:
        """Describes the training set without the validation split; the longest series is that of all files."""
        train = self.folder.read("train")
        series = [train.series[index] for index in self.indices("train")]
        longest = self.cfg.max_positions or max(file.longest for file in self.folder.files())
        return SeriesDescription.of(series, self.cfg.normalize == "channel", longest, train.labels)

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
