"""Results of encoders that nobody trained, as evaluate.sh writes them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ea_fairseq.experiments.scoring.results import PREDICTIONS, Dataset, Results, write_predictions
from ea_fairseq.experiments.scoring.task_scores import task_score
from projects import results

EXAMPLES = 60


def write_encoder_results(
    folder: Path,
    model: str,
    seed: int,
    dataset: str = "glue-toy",
    names: Sequence[str] = ("accuracy",),
    wrong: float = 0.3,
    family: str | None = None,
    labels: Sequence[str] | None = None,
    predictions: Sequence[str] | None = None,
) -> Results:
    """Writes a folder with results and predictions: those given, or drawn labels of which a part is predicted wrong."""
    draw = random.Random(dataset)
    labels = labels or draw.choices("01", k=EXAMPLES)
    draw = random.Random(f"{model} {seed}")
    predictions = predictions or [str(1 - int(label)) if draw.random() < wrong else label for label in labels]
    folder.mkdir(parents=True)
    write_predictions(folder / PREDICTIONS, ("label", "prediction"), zip(labels, predictions, strict=True))
    found = replace(
        results(folder, model, seed, 0.0),
        arch="ea_bert_mini",
        parameters=22_713_216 + 7_848 * (family is not None),
        dataset=Dataset(dataset, None, None, "valid", None, dataset),
        scores={name: task_score(name, labels, predictions) for name in names},
        family=family,
        task="sentence_prediction",
    )
    found.write()
    return found
