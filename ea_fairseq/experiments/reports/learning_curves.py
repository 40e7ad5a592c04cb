"""The papers' figure 5: losses and BLEU during training."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ea_fairseq.experiments.figures import PAGE, literal, looks
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.scoring.results import Point

POINTS = 100
WARM_UP = 0.25  # the first part of a training, which the range of the vertical axis ignores
UNITS = {"translation": "bits per token", "masked_lm": "bits per word"}  # of losses, by task
CURVES: dict[str, tuple[str, str, Callable[[Point], float | None]]] = {
    "training-loss": ("train_curve", "training loss", lambda point: point.loss),
    "validation-loss": ("valid_curve", "validation loss", lambda point: point.loss),
    "validation-bleu": ("valid_curve", "validation BLEU", lambda point: point.bleu),
}
INCHES_OF_LETTER, INCHES_OF_HANDLE, INCHES_OF_ROW = 0.065, 0.6, 0.18  # in a legend


@dataclass(frozen=True)
class Band:
    """A curve, averaged over seeds, and the range of the seeds.

    Args:
        x: (points,) updates, or the time that these took, averaged over seeds.
        middle, low, high: (points,) mean, minimum and maximum over seeds; equal for one seed.
    """

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(curves: Iterable[list[Point]], x: Callable[[Point], float], y: Callable[[Point], float | None]) -> Band | None:
    """Returns the band of curves over the updates at which all of them have a value; None if there are none.

    Points that are not finite, as in a training that diverged, are left out. A single curve keeps its points. Several
    are interpolated at the updates of all of them or, if these are more than ``POINTS``, at ``POINTS`` evenly spaced
    ones; x is averaged over the curves, too.
    """
    found = [[(point.updates, x(point), y(point)) for point in curve if y(point) is not None] for curve in curves]
    tables = [np.array(line, dtype=float).reshape(-1, 3) for line in found]
    lines = [table[np.isfinite(table).all(axis=1)].T for table in tables]
    lines = [line for line in lines if line.shape[1] > 1]
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


def label_of(comparison: Comparison, dataset: str, name: str) -> str:
    """Returns the name of a curve's quantity, with its unit."""
    label = CURVES[name][1]
    return f"{label} ({UNITS.get(comparison.task(dataset), 'as fairseq logs it')})" if label.endswith("loss") else label


def learning_curves(comparison: Comparison, dataset: str, models: list[str], name: str) -> Figure | None:
    """A curve for each model: on the left against updates, on the right against wall-clock time."""
    drawn = bands_by_axis(comparison, dataset, models, name)
    named = list(drawn["updates"])
    if not named:
        return None
    style = looks(models)
    columns = max(1, int(PAGE / (INCHES_OF_HANDLE + INCHES_OF_LETTER * max(map(len, named)))))
    rows = -(-len(named) // columns)
    figure = Figure(figsize=(PAGE, 2.3 + INCHES_OF_ROW * rows))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (axis, lines) in zip(panels, drawn.items(), strict=True):
        for model, line in lines.items():
            draw_band(panel, line, model, style[model])
        panel.set_xlabel(axis)
        panel.set_xlim(left=0)
    panels[0].set_ylabel(label_of(comparison, dataset, name))
    panels[0].set_ylim(*range_of(list(drawn["updates"].values())))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    return figure


def bands_by_axis(comparison: Comparison, dataset: str, models: list[str], name: str) -> dict[str, dict[str, Band]]:
    """Returns the bands of models with curves by updates and by wall-clock time, whose unit is in its axis's name."""
    curve, _, value = CURVES[name]
    curves = {
        model: [getattr(result, curve) for result in comparison.results(model, dataset).values()] for model in models
    }
    longest = max((line[-1].seconds for lines in curves.values() for line in lines if line), default=0)
    unit, seconds = ("hours", 3600) if longest >= 2 * 3600 else ("minutes", 60)
    axes = {
        "updates": lambda point: point.updates,
        f"wall-clock ({unit})": lambda point: point.seconds / seconds,
    }
    return {
        axis: {model: found for model, lines in curves.items() if (found := band(lines, x, value))}
        for axis, x in axes.items()
    }


def draw_band(panel: Axes, line: Band, model: str, style: dict[str, Any]) -> None:
    """Draws the mean of the seeds, and a band from the lowest to the highest."""
    panel.plot(line.x, line.middle, label=literal(model), markevery=0.2, **style)
    if not np.array_equal(line.low, line.high):
        panel.fill_between(line.x, line.low, line.high, color=style["color"], alpha=0.2, linewidth=0)


def range_of(lines: list[Band]) -> tuple[float, float]:
    """Returns the range of the vertical axis, which ignores the high losses and low scores at the beginning."""
    shown = np.concatenate(
        [values[line.x >= WARM_UP * line.x[-1]] for line in lines for values in (line.low, line.high)]
    )
    margin = 0.05 * float(np.ptp(shown)) or 0.5
    return shown.min() - margin, shown.max() + margin
