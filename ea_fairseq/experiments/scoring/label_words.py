"""Evaluation of text to text: the words that a T5 generates for labels, and their scores."""

import math
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from fairseq.models.transformer import TransformerModel

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_bin import TextToTextData
from ea_fairseq.experiments.scoring.outcome import Description
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Score
from ea_fairseq.experiments.scoring.scores import Lines
from ea_fairseq.experiments.scoring.task_scores import DEFINITIONS, task_score
from ea_fairseq.experiments.scoring.translation import Texts, Translations

REPORTED = {"cola": ("Matthews",), "mrpc": ("F1", "accuracy")}  # scores of tasks in GLUE's tables
OF_SCORES = ("Pearson", "Spearman")
NO_SCORE = "-1.0"  # for a word that is not a number, as in T5


class LabelWords(Translations):
    """Labels and predictions, as numbers.

    Raises:
        UserError: if the data has a word that is not a label.
    """

    definitions = DEFINITIONS
    kind = TextToTextData

    def __init__(self, args: Namespace, data: TextToTextData, texts: Texts):
        super().__init__(args, data, texts)
        predictions, labels = texts.raw
        pairs = [self.numbers(*pair) for pair in zip(labels, predictions, strict=True)]
        self.labels, self.predictions = ([pair[side] for pair in pairs] for side in range(2))
        known = data.preparation.classes
        self.unknown = sum(word not in known if known else not is_score(word) for word in predictions)

    def numbers(self, label: str, prediction: str) -> tuple[str, str]:
        """Converts label and prediction to numbers; a prediction that is not a label becomes a wrong one."""
        classes = self.data.preparation.classes
        if classes is None:
            return label, prediction if is_score(prediction) else NO_SCORE
        if label not in classes:
            raise UserError(f"{self.data.folder} has the target {label}, which its preparation.json does not have.")
        number = classes.index(label)
        wrong = (number + 1) % len(classes)
        return str(number), str(classes.index(prediction) if prediction in classes else wrong)

    def describe(self, model: TransformerModel) -> Description:
        """Describes the model for tables; all parameters are counted, as in papers on T5."""
        found = super().describe(model)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return replace(found, cost=replace(found.cost, parameters=parameters))

    def scores(self) -> dict[str, Score]:
        """GLUE's scores of the task; for other tasks the accuracy, or correlations if labels are scores."""
        preparation = self.data.preparation
        names = REPORTED.get(str(preparation.task), ("accuracy",)) if preparation.classes else OF_SCORES
        return {name: task_score(name, self.labels, self.predictions) for name in names}

    def size(self) -> str:
        """The number of examples."""
        return f"{len(self.labels):,} examples"

    def notes(self) -> list[str]:
        """How many of the predicted words were not labels."""
        return [f"{self.unknown:,} of the predicted words are not labels, and count as wrong."] if self.unknown else []

    def files(self) -> Mapping[str, Lines]:
        """The lines of predictions.tsv."""
        rows = [("label", "prediction"), *zip(self.labels, self.predictions, strict=True)]
        return {PREDICTIONS: ["\t".join(row) for row in rows]}


def is_score(word: str) -> bool:
    """Whether a word is a finite number."""
    with suppress(ValueError):
        return math.isfinite(float(word))
    return False
