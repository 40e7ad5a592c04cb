"""The task ``time_series_prediction``: a series' class, or a number, for the criterion ``sentence_prediction``."""

import math
from dataclasses import dataclass

import numpy as np
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks import register_task
from omegaconf import II

from ea_fairseq.series.dataset import SeriesDataset
from ea_fairseq.series.ts_file import SeriesFile
from ea_fairseq.tasks.time_series import TimeSeriesConfig, TimeSeriesTask
from ea_fairseq.user_error import UserError


@dataclass
class TimeSeriesPredictionConfig(TimeSeriesConfig):
    """The flags of the task; those of the criterion say what is predicted."""

    regression_target: bool = II("criterion.regression_target")
    classification_head_name: str = II("criterion.classification_head_name")


@register_task("time_series_prediction", dataclass=TimeSeriesPredictionConfig)
class TimeSeriesPredictionTask(TimeSeriesTask):
    """Predicts the class of a series or, with ``--regression-target``, a number."""

    def build_dataset(self, file: SeriesFile, indices: np.ndarray, shuffle: bool) -> SeriesDataset:
        """Series with the numbers of their classes, as the training set counts them, or the numbers to predict."""
        targets = file.targets
        if not self.cfg.regression_target:
            targets = [self.description.labels.index(file.labels[target]) for target in targets]
        series, targets = ([values[index] for index in indices] for values in (file.series, targets))
        return SeriesDataset(series, targets, self.description, shuffle)

    def require_fitting(self, file: SeriesFile) -> None:
        """
        Raises:
            UserError: naming the file, also where it has other labels or none.
        """
        super().require_fitting(file)
        if file.targets is None:
            raise UserError(f"{file.path} has neither classes nor numbers to predict: @classLabel, @targetLabel")
        if self.cfg.regression_target and file.labels is not None:
            raise UserError(f"{file.path} has classes: leave out --regression-target")
        if not self.cfg.regression_target and file.labels is None:
            raise UserError(f"{file.path} has numbers to predict: give --regression-target")
        unknown = sorted({*(file.labels or ())}.difference(self.description.labels or ()))
        if unknown:
            raise UserError(f"{file.path} has the class {unknown[0]!r}, which the training set does not have")

    def add_output(self, model) -> None:
        """A classification head, of one number where that is what is predicted."""
        model.register_classification_head(self.cfg.classification_head_name, self.description.outputs)

    @property
    def label_dictionary(self) -> Dictionary:
        """The numbers of classes, which the criterion reads back as numbers."""
        numbers = Dictionary()
        for number in range(self.description.outputs):
            numbers.add_symbol(str(number))
        return numbers

    def reduce_metrics(self, logging_outputs: list[dict], criterion) -> None:
        """fairseq's figures and, where a number is predicted, ``rmse``, the root of the mean squared error."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.cfg.regression_target:  # fairseq logs the mean squared error divided by ln 2
            metrics.log_derived("rmse", lambda meters: math.sqrt(meters["loss"].avg * math.log(2)))
