"""Evaluation of classifications and regressions of time series."""

from collections.abc import Iterator
from dataclasses import asdict

from ea_fairseq.analysis.time_series_cost import cost
from ea_fairseq.experiments.scoring.encoder_outcome import EncoderOutcome, is_plain
from ea_fairseq.experiments.scoring.outcome import Description
from ea_fairseq.models.dc_transformer import DCTransformer
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.tasks.time_series_prediction import HEAD, TimeSeriesPredictionTask


class SeriesPredictions(EncoderOutcome):
    """Labels of series, or numbers."""

    header = ("label", "prediction")
    noun = "series"
    head = HEAD

    @staticmethod
    def predict(
        model: TimeSeriesModel, task: TimeSeriesPredictionTask, sample: dict
    ) -> Iterator[tuple[str, str] | tuple[float, float]]:
        """Label and prediction of each series, or both numbers in the units of the file."""
        output, _ = model(**sample["net_input"], classification_head_name=HEAD)
        labels, targets = task.description.labels, sample["target"].tolist()
        if labels is None:
            yield from zip(targets, output.float().view(-1).tolist(), strict=True)
            return
        for label, prediction in zip(targets, output.argmax(dim=1).tolist(), strict=True):
            yield labels[label], labels[prediction]

    @property
    def names(self) -> tuple[str]:
        """Accuracy, and of numbers RMSE."""
        return ("RMSE" if self.checkpoint.options("criterion").get("regression_target") else "accuracy",)

    def describe(self, model: TimeSeriesModel) -> Description:
        """What tables say of the model; FLOPs are of one series of the longest there are."""
        found, family = asdict(model.options.from_namespace(model.args)), None
        if isinstance(model, DCTransformer) and not is_plain(model):
            family = model.family
            found |= asdict(family.attention.options.from_namespace(model.args))
        return Description(family and family.name, found, cost(model))
