"""The task ``time_series_prediction``: classification or regression, for the criterion ``sentence_prediction``."""

import math

import numpy as np
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task

from ea_fairseq.errors import UserError
from ea_fairseq.series.dataset import SeriesDataset
from ea_fairseq.series.description import SeriesDescription
from ea_fairseq.series.ts_file import SeriesFile
from ea_fairseq.tasks.folder import require_known_labels
from ea_fairseq.tasks.prediction import HEAD, PredictionTask
from ea_fairseq.tasks.time_series import TimeSeriesConfig, TimeSeriesTask


@register_task("time_series_prediction", dataclass=TimeSeriesConfig)
class TimeSeriesPredictionTask(PredictionTask[SeriesDescription], TimeSeriesTask):
    """Predicts the class of a series, or a number if its files have numbers as targets."""

    def build_dataset(self, file: SeriesFile, indices: np.ndarray, training: bool) -> SeriesDataset:
        """Builds a data set of series, with classes numbered as in the training set, or with the numbers to predict."""
        assert file.targets is not None  # require_fitting has checked it
        targets = [file.targets[index] for index in indices]
        if file.labels is not None and self.description.labels is not None:
            targets = [self.description.labels.index(file.labels[target]) for target in targets]
        return SeriesDataset([file.series[index] for index in indices], targets, self.description, training)

    def require_fitting(self, file: SeriesFile) -> None:
        """Checks that a file's series fit the model, and that its targets are like the training set's.

        Raises:
            UserError: naming the file, if they do not.
        """
        super().require_fitting(file)
        if file.targets is None:
            raise UserError(f"{file.path} has neither classes nor numbers to predict: @classLabel, @targetLabel")
        if (file.labels is None) != (self.description.labels is None):
            kinds = ("numbers", "classes") if file.labels is None else ("classes", "numbers")
            raise UserError(f"{file.path} has {kinds[0]} to predict, but the training set has {kinds[1]}")
        require_known_labels(file, self.description.labels or ())

    def add_output(self, model: BaseFairseqModel) -> None:
        """Adds a classification head, which has one output for regression."""
        model.register_classification_head(HEAD, self.description.outputs)

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return self.description.labels is not None

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Logs fairseq's metrics and, for regression, ``rmse``, the root of the mean squared error."""
        super().reduce_metrics(logging_outputs, criterion)
        if not self.has_classes:  # fairseq logs the mean squared error divided by ln 2
            metrics.log_derived("rmse", lambda meters: math.sqrt(meters["loss"].avg * math.log(2)))
