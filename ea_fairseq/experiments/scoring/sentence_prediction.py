"""Evaluation of classifiers and regressions of sentences, and of pairs of them."""

from collections.abc import Iterator

from fairseq.models.roberta import RobertaModel
from fairseq.tasks.sentence_prediction import SentencePredictionTask

from ea_fairseq.experiments.scoring.encoder_outcome import EncoderOutcome

REPORTED = {  # scores by the flag of fairseq's criterion that trainings report them with, as GLUE's tables have them
    "regression_target": ("Pearson", "Spearman"),
    "report_mcc": ("Matthews",),
    "report_acc_and_f1": ("F1", "accuracy"),
}


class SentencePredictions(EncoderOutcome):
    """Labels, or scores of a regression."""

    header = ("label", "prediction")
    noun = "examples"

    @staticmethod
    def predict(
        model: RobertaModel, task: SentencePredictionTask, sample: dict
    ) -> Iterator[tuple[str, str] | tuple[float, float]]:
        """Label and prediction of each example; of a regression the scores in the units of the data."""
        output, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=task.cfg.classification_head_name
        )
        targets = sample["target"].view(-1).tolist()
        if task.cfg.regression_target:
            yield from zip(targets, output.float().view(-1).tolist(), strict=True)
            return
        labels = task.label_dictionary
        for label, prediction in zip(targets, output.argmax(dim=1).tolist(), strict=True):
            yield labels[label + labels.nspecial], labels[prediction + labels.nspecial]

    @property
    def names(self) -> tuple[str, ...]:
        """By the criterion's options; the accuracy where they name nothing else."""
        options = self.checkpoint.options("criterion")
        return next((names for flag, names in REPORTED.items() if options.get(flag)), ("accuracy",))

    @property
    def head(self) -> str:
        """The head that was trained."""
        return self.checkpoint.options("task").get("classification_head_name") or "sentence_classification_head"
