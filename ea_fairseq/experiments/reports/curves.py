"""Learning curves of several seeds as one curve with a band."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ea_fairseq.experiments.scoring.results import Point

POINTS = 100


@dataclass(frozen=True)
class Band:
    """A curve and how far seeds are from it.

    Args:
        x: (points,) where the curve is: updates, or the mean over seeds of the time that these took.
        middle, low, high: (points,) of the mean over seeds, the least and the greatest; equal for one seed.
    """

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(curves: Iterable[list[Point]], x: Callable[[Point], float], y: Callable[[Point], float | None]) -> Band | None:
    """The band of some curves over the updates at which all of them have a value; None where there are no such.

    A curve that is alone keeps its points. Several are interpolated, at the updates of all of them or, where these are
    many, at some as many as a figure shows; x is the mean over the curves, too.
    """
    lines = [[(point.updates, x(point), y(point)) for point in curve if y(point) is not None] for curve in curves]
    lines = [np.array(line, dtype=float).T for line in lines if len(line) > 1]
    if not lines:
        return None
    if len(lines) == 1:
        _, places, values = lines[0]
        return Band(places, *[values] * 3)
    start, end = max(updates[0] for updates, *_ in lines), min(updates[-1] for updates, *_ in lines)
    if start >= end:
        return None
    grid = np.unique(np.concatenate([updates for updates, *_ in lines]).clip(start, end))
    grid = np.linspace(start, end, POINTS) if len(grid) > POINTS else grid
    places, values = np.stack([[np.interp(grid, updates, row) for row in rows] for updates, *rows in lines], axis=1)
    return Band(places.mean(0), values.mean(0), values.min(0), values.max(0))
