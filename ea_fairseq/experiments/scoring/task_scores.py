"""Scores of encoders' predictions, computed by scikit-learn and SciPy, each with its definition."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pkgutil import resolve_name

import numpy as np

from ea_fairseq.experiments.scoring.results import Score

SEPARATOR = "/"  # between the most probable classes of an image; classes are names of folders


@dataclass(frozen=True)
class Metric:
    """How a score is computed.

    Args:
        definition: in words.
        function: that computes it, as ``module:name``, from two arrays with a row for each example.
        package: the function's package on PyPI; empty for this project.
        kind: type of the values in the arrays.
        unit: in which the score is printed.
        digits: how many are printed after the decimal point.
    """

    definition: str
    function: str
    package: str = "scikit-learn"
    kind: type = str
    unit: float = 0.01
    low_is_good: bool = False
    digits: int = 2

    def read(self, column: Sequence[str]) -> np.ndarray:
        """Parses a column of predictions.tsv, (examples,); raises ValueError if it is of another kind or not finite."""
        values = np.array([self.kind(value) for value in column])
        if self.kind is float and not np.isfinite(values).all():
            raise ValueError("a number is not finite")
        return values

    def count(self, labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        """Computes the score of labels and predictions, (examples,) each; errors also take (..., examples).

        A correlation with predictions that are all equal is not defined; here it is zero.
        """
        with warnings.catch_warnings(action="ignore"):
            found = resolve_name(self.function)(labels, predictions)
        return np.nan_to_num(getattr(found, "statistic", found)) / self.unit

    @property
    def signature(self) -> str:
        """The package and the function that compute the score."""
        name = self.function.partition(":")[2]
        return f"{self.package} {version(self.package)}, {name}" if self.package else name


METRICS = {
    "accuracy": Metric("correct labels, in percent", "sklearn.metrics:accuracy_score"),
    "top-1": Metric("images whose most probable class is theirs, in percent", f"{__name__}:top_1", ""),
    "top-5": Metric("images whose class is one of the five most probable, in percent", f"{__name__}:top_5", ""),
    "Matthews": Metric("Matthews correlation of labels, times 100", "sklearn.metrics:matthews_corrcoef"),
    "F1": Metric("F1 of label 1, times 100", "sklearn.metrics:f1_score", kind=int),
    "Pearson": Metric("Pearson correlation of scores, times 100", "scipy.stats:pearsonr", "scipy", float),
    "Spearman": Metric("Spearman correlation of scores, times 100", "scipy.stats:spearmanr", "scipy", float),
    "RMSE": Metric(
        "root mean squared error in the units of the data; lower is better",
        f"{__name__}:root_mean_squared_error",
        "",
        float,
        unit=1.0,
        low_is_good=True,
        digits=4,
    ),
    "perplexity": Metric(
        "of masked words, which are the same for all models; lower is better",
        f"{__name__}:perplexity",
        "",
        float,
        unit=1.0,
        low_is_good=True,
    ),
}
DEFINITIONS = {name: metric.definition for name, metric in METRICS.items()}
LOW_IS_GOOD = ("TER", *(name for name, metric in METRICS.items() if metric.low_is_good))  # TER is of translations


def top_1(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Returns the share of labels, (B,), equal to the first prediction, (..., B), before the first ``SEPARATOR``."""
    return (np.char.partition(predictions, SEPARATOR)[..., 0] == labels).mean(axis=-1)


def top_5(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Returns the share of labels that are among the predictions."""
    enclosed, label = (SEPARATOR + column.astype(object) + SEPARATOR for column in (predictions, labels))
    return (np.char.find(enclosed.astype(str), label.astype(str)) >= 0).mean(axis=-1)


def perplexity(words: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Returns 2 to the power of the mean loss of a word, from the words and the bits of each block, (..., B)."""
    return 2.0 ** (bits.sum(axis=-1) / words.sum())


def root_mean_squared_error(numbers: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Returns the error of predictions, (..., B), of the same numbers, (B,)."""
    return np.sqrt(((predictions - numbers) ** 2).mean(axis=-1))


def digits_of(name: str) -> int:
    """Returns how many digits of a score are printed after the decimal point."""
    return METRICS[name].digits if name in METRICS else 2


def task_score(name: str, labels: Sequence[str], predictions: Sequence[str], signature: str = "") -> Score:
    """Computes a score of METRICS from the columns of predictions.tsv.

    Args:
        signature: what else the score depends on.

    Raises:
        ValueError: if a label or prediction is not of the metric's kind.
    """
    metric = METRICS[name]
    found = float(metric.count(metric.read(labels), metric.read(predictions)))
    detail = f"{len(labels):,} examples" + ", all predictions equal" * (len(set(predictions)) == 1)
    return Score(round(found, metric.digits), detail, ", ".join(filter(None, (metric.signature, signature))))
