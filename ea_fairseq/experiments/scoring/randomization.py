"""The paired randomization test: whether encoders differ by more than the choice of the examples explains."""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import permutation_test, rankdata

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.results import Results, read_predictions
from ea_fairseq.experiments.scoring.significance import ALTERED, RESAMPLES, SEED
from ea_fairseq.experiments.scoring.task_scores import LOW_IS_GOOD, METRICS, digits_of

BATCH = 100  # resamples at once
DECIMALS = 9  # of differences, so that equal ones do not differ by rounding errors
DISTANCES = {  # SciPy's distances that are 1 - score, to score many resamples at once
    "accuracy": "hamming",
    "F1": "dice",
    "Matthews": "correlation",  # of two classes
    "Pearson": "correlation",
    "Spearman": "correlation",  # of ranks
    "top-1": "hamming",  # of whether predictions are right, and that they are
    "top-5": "hamming",
}
HITS = ("top-1", "top-5")


class OtherExamplesError(UserError):
    """Each seed of a model is scored on other examples, such as if the seed draws the validation set."""


def randomization_p_value(baselines: Sequence[Results], models: Sequence[Results], score: str) -> float:
    """Returns the p-value of the difference between two models' mean scores over all seeds.

    The two models' predictions for an example are exchanged at random, in the same way for all seeds; p is the share of
    such exchanges that make the means differ at least as much, in either direction (Noreen 1989).

    Args:
        baselines, models: of the same seeds, in the same order.

    Raises:
        OtherExamplesError: if seeds have different examples.
        UserError: if predictions are missing, are of different examples, or do not have the score that results.json
            says.
    """
    first, second = ([columns_of(result, score) for result in side] for side in (baselines, models))
    labels = first[0][0]
    are_paired = all(np.array_equal(ours, theirs) for (ours, _), (theirs, _) in zip(first, second, strict=True))
    for result, (others, _) in zip((*baselines, *models), (*first, *second), strict=True):
        if np.array_equal(others, labels):
            continue
        what = f"{baselines[0].folder} and {result.folder} were scored on different examples"
        if are_paired:
            raise OtherExamplesError(f"{what}: with --split-seed all seeds have the same validation set.")
        raise UserError(f"{what}: evaluate both again.")
    predictions = [np.concatenate([ours, theirs]) for (_, ours), (_, theirs) in zip(first, second, strict=True)]
    if score in HITS:
        targets = np.tile(labels, 2)[:, None]
        predictions = [METRICS[score].count(targets, column[:, None]) > 0 for column in predictions]
        labels = np.ones(len(labels), dtype=bool)
    elif METRICS[score].kind is str:
        values = np.unique(np.concatenate([labels, *predictions]))
        labels, *predictions = (np.searchsorted(values, column) for column in (labels, *predictions))

    def mean_scores(examples: np.ndarray) -> np.ndarray:
        rows = np.atleast_2d(examples).astype(int)
        return np.mean([scores_of(score, labels, seed[rows]) for seed in predictions], axis=0)

    def difference(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
        return np.squeeze(np.round(mean_scores(second) - mean_scores(first), DECIMALS))

    size = len(labels)
    sides = np.arange(size), np.arange(size, 2 * size)
    options = {"permutation_type": "samples", "vectorized": True, "batch": BATCH}
    return float(permutation_test(sides, difference, n_resamples=RESAMPLES, rng=SEED, **options).pvalue)


def scores_of(score: str, labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Scores many predictions, (resamples, examples), of the same labels, (examples,); undefined scores are 0."""
    if score in LOW_IS_GOOD:
        return METRICS[score].count(labels, predictions)
    if score == "Matthews" and len(np.union1d(labels, predictions)) > 2:
        return np.array([METRICS[score].count(labels, row) for row in predictions])
    if score == "Spearman":
        labels, predictions = rankdata(labels), rankdata(predictions, axis=1)
    if score == "F1":
        labels, predictions = labels == 1, predictions == 1
    with warnings.catch_warnings(action="ignore"):
        distances = cdist(labels[None], predictions, DISTANCES[score])[0]
    return np.nan_to_num(1 - distances) / METRICS[score].unit


def columns_of(result: Results, score: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads targets and predictions, (examples,) each, and checks their score."""
    columns = read_predictions(result.folder)
    try:
        labels, predictions = map(METRICS[score].read, columns)
    except ValueError:
        raise UserError(f"{result.folder} has predictions that have no {score}: evaluate the model again.") from None
    counted, digits = METRICS[score].count(labels, predictions), digits_of(score)
    if abs(counted - result.scores[score].score) > ALTERED:
        raise UserError(
            f"the predictions in {result.folder} score {counted:.{digits}f}, and results.json says "
            f"{result.scores[score].score:.{digits}f} {score}: evaluate the model again."
        )
    return labels, predictions
