"""The columns that follow the data sets in CEAN's tables of time series."""

import re
from collections.abc import Callable, Sequence
from statistics import fmean

from scipy.stats import rankdata

from ea_fairseq.experiments.reports.comparison import Comparison, Spread
from ea_fairseq.experiments.reports.papers import PrintedRow
from ea_fairseq.experiments.runs.binarised import SeriesData
from ea_fairseq.experiments.tables import MINUS, NONE

OVER_DATA = {  # what the columns mean
    "mean rank": "mean rank: over data sets, 1 is the best; our models and the paper's are ranked separately.",
    "mean relative difference": "mean relative difference: to the mean of all models (CEAN eq. 12); lower is better.",
}


def columns_over_data(comparison: Comparison, printed: list[PrintedRow]) -> dict[str, list[str]]:
    """Returns CEAN's columns over data sets, for time series only: a cell for each model and each printed row."""
    datasets = comparison.datasets
    low = list(map(comparison.low_is_good, datasets))
    ours = [[mean_score(comparison, model, dataset) for dataset in datasets] for model in comparison.models]
    theirs = [[first_number(row.scores.get(dataset, "")) for dataset in datasets] for row in printed]
    if any(comparison.task(dataset) != SeriesData.task for dataset in datasets):
        return {}
    found = {"mean rank": lambda columns: mean_ranks(columns, low)} if len(datasets) > 1 else {}
    found |= {"mean relative difference": mean_relative_differences} if all(low) else {}
    return {name: [*cells_of(ours, count), *cells_of(theirs, count)] for name, count in found.items()}


def cells_of(rows: list[list[float | None]], count: Callable[[Sequence[Sequence[float]]], list[float]]) -> list[str]:
    """Returns a cell for each row: what ``count`` finds from the columns of all rows that have no gap."""
    whole = [row for row in rows if None not in row]
    found = iter(count(list(zip(*whole, strict=True))) if whole else ())
    return [NONE if None in row else f"{next(found):z.2f}".replace("-", MINUS) for row in rows]


def mean_score(comparison: Comparison, model: str, dataset: str) -> float | None:
    """The first score of a model on a data set, averaged over seeds; None if there is none."""
    scores = comparison.scores(model, dataset)
    return Spread.of(scores.values()).mean if scores else None


def first_number(cell: str) -> float | None:
    """The first of the numbers in a paper's cell."""
    found = re.match(r"[\d.]+", cell)
    return float(found[0]) if found else None


def mean_ranks(columns: Sequence[Sequence[float]], low_is_good: Sequence[bool]) -> list[float]:
    """The mean rank of each model, from 1, the best; equal models share ranks.

    Args:
        columns: the scores of all models, for each data set.
        low_is_good: whether lower scores are better, for each data set.
    """
    ranks = [
        rankdata(column if low else [-score for score in column])
        for column, low in zip(columns, low_is_good, strict=True)
    ]
    return [fmean(found) for found in zip(*ranks, strict=True)]


def mean_relative_differences(columns: Sequence[Sequence[float]]) -> list[float]:
    """Each model's relative difference to the mean of all models, averaged over data sets (CEAN eq. 12)."""
    differences = [[(score - fmean(column)) / fmean(column) for score in column] for column in columns]
    return [fmean(found) for found in zip(*differences, strict=True)]
