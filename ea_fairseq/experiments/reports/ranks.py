"""How models compare over several data sets: mean ranks, and mean relative differences (CEAN eq. 12)."""

from collections.abc import Sequence
from statistics import fmean

from scipy.stats import rankdata


def mean_ranks(columns: Sequence[Sequence[float]], low_is_good: Sequence[bool]) -> list[float]:
    """The mean rank of each model, from 1, the best; equal models share ranks.

    Args:
        columns: of each data set the scores of all models; low_is_good: of each data set.
    """
    ranks = [
        rankdata(column if low else [-score for score in column])
        for column, low in zip(columns, low_is_good, strict=True)
    ]
    return [fmean(found) for found in zip(*ranks, strict=True)]


def mean_relative_differences(columns: Sequence[Sequence[float]]) -> list[float]:
    """By what part each model is off the mean of all models, on average over data sets (CEAN eq. 12)."""
    differences = [[(score - fmean(column)) / fmean(column) for score in column] for column in columns]
    return [fmean(found) for found in zip(*differences, strict=True)]
