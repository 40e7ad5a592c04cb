"""Learning curves of several seeds as one curve with a band."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from experiments.scoring.results import Point

POINTS = 100


@dataclass(frozen=True)
class Band:
    """A curve and how far seeds are from it.

    Args:
        x, middle, low, high: (points,) of the mean over seeds, the least and the greatest; equal for one seed.
    """

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(curves: Iterable[list[Point]], x: Callable[[Point], float], y: Callable[[Point], float | None]) -> Band | None:
    """The band of some curves where all of them have a value; None where there is no such place.

    A curve that is alone keeps its points. Several are interpolated, at the points of all of them or, where these are
    many, at some as many as a figure shows.
    """
    lines = [[(x(point), y(point)) for point in curve if y(point) is not None] for curve in curves]
    lines = [np.array(line, dtype=float).T for line in lines if len(line) > 1]
    if not lines:
        return None
    if len(lines) == 1:
        return Band(lines[0][0], *[lines[0][1]] * 3)
    start, end = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    if start >= end:
        return None
    grid = np.unique(np.concatenate([places for places, _ in lines]).clip(start, end))
    grid = np.linspace(start, end, POINTS) if len(grid) > POINTS else grid
    values = np.stack([np.interp(grid, *line) for line in lines])
    return Band(grid, values.mean(0), values.min(0), values.max(0))
