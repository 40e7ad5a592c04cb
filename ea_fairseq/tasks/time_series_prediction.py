"""The task ``time_series_prediction``: classification or regression, for the criterion ``sentence_prediction``."""

import math
from typing import Any

import numpy as np
from fairseq.criterions import FairseqCriterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task

from ea_fairseq.errors import UserError
from ea_fairseq.series.dataset import SeriesDataset
from ea_fairseq.series.ts_file import SeriesFile
from ea_fairseq.tasks.described import numbered_classes
from ea_fairseq.tasks.folder import require_known_labels
from ea_fairseq.tasks.time_series import TimeSeriesConfig, TimeSeriesTask

HEAD = SentencePredictionConfig.classification_head_name


@register_task("time_series_prediction", dataclass=TimeSeriesConfig)
class TimeSeriesPredictionTask(TimeSeriesTask):
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

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> FairseqCriterion:
        """Builds the criterion.

        Raises:
            UserError: if the criterion is for another task, another kind of target, or another head.
        """
        self.require_criterion(cfg, SentencePredictionCriterion, "sentence_prediction")
        if getattr(cfg, "regression_target", None) is True and self.description.labels is not None:
            raise UserError(
                "--regression-target is for numbers to predict, and these series have classes: leave it out"
            )
        if getattr(cfg, "regression_target", None) is False and self.description.labels is None:
            raise UserError("these series have numbers to predict: give --regression-target")
        if getattr(cfg, "classification_head_name", HEAD) != HEAD:
            raise UserError(
                "--classification-head-name is not for time series, whose models have one head: leave it out"
            )
        return super().build_criterion(cfg, from_checkpoint)

    @property
    def label_dictionary(self) -> Dictionary:
        """The dictionary of class numbers."""
        return numbered_classes(self.description.outputs)

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Logs fairseq's metrics and, for regression, ``rmse``, the root of the mean squared error."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.description.labels is None:  # fairseq logs the mean squared error divided by ln 2
            metrics.log_derived("rmse", lambda meters: math.sqrt(meters["loss"].avg * math.log(2)))
