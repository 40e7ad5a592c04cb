"""Figures of attention maps: a row of maps for each stage of their evolution, a column for each layer."""

from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes as Panel
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from ea_fairseq.experiments.figures import OKABE_ITO, PAGE, STYLE, literal, save

LOOKS = STYLE | {
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 1.5,
    "ytick.major.size": 1.5,
    "figure.titlesize": 9,
    "figure.labelsize": 8,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
}
BLANK = "0.8"  # grey
POINT = 1 / 72  # all lengths are in inches
LEAST_CELL, MOST_CELL = 5.5 * POINT, 12 * POINT
GAP, BAR = 0.08, 0.8  # next to a panel; for a row's colour bar with its numbers, and the label of queries
HEADING, ROW_LABEL = 0.8, 0.3
STRIP = 0.35  # of a map's side, for the series next to it


@dataclass(frozen=True)
class Row:
    """A row of maps.

    Args:
        label: of the row.
        maps: (T, S) for each layer, NaN where a query must not see a key.
        diverging: whether the values are logits, with colours centred at 0, or probabilities.
    """

    label: str
    maps: list[np.ndarray]
    diverging: bool

    def draw(self, panel: Panel, layer: int, most: float) -> AxesImage:
        """Draws a layer's map; colours span 0 to ``most``, or for logits -``most`` to ``most``. Returns the image."""
        colours = colormaps["RdBu_r" if self.diverging else "viridis"].with_extremes(bad=BLANK)
        low = -most if self.diverging else 0.0
        return panel.imshow(self.maps[layer], cmap=colours, vmin=low, vmax=most, interpolation="nearest", aspect="auto")


@dataclass(frozen=True)
class Axes:
    """The words along the T rows and S columns of all maps of a figure, and the labels of both axes."""

    queries: list[str]
    keys: list[str]
    query_label: str
    key_label: str


def draw_maps(title: str, rows: list[Row], axes: Axes, stem: Path) -> list[Path]:
    """Draws rows of maps into ``stem``.png and .svg: one scale for each row, grey where a query must not see a key.

    Maps are as large as the page's width allows; if they would be illegible, the figure is wider.
    """
    down, across, layers = len(axes.queries), len(axes.keys), max(len(row.maps) for row in rows)
    query, key = (max(map(len, words)) for words in (axes.queries, axes.keys))
    room = PAGE - BAR - layers * GAP
    cell = min(max(room / (layers * across + 0.6 * query), LEAST_CELL), MOST_CELL)
    font = min(8.0, 0.95 * cell / POINT)
    letter = 0.6 * font * POINT
    width = max(PAGE, layers * (across * cell + GAP) + query * letter + BAR)
    height = len(rows) * (down * cell + ROW_LABEL) + key * letter + HEADING
    with matplotlib.rc_context(LOOKS):
        figure = Figure(figsize=(width, height))
        panels = figure.subplots(len(rows), layers, sharex=True, sharey=True, squeeze=False)
        for row, of_row in zip(rows, panels, strict=True):
            most = max(largest(values) for values in row.maps) if row.diverging else 1.0
            for layer in range(len(row.maps)):
                image = row.draw(of_row[layer], layer, most)
            for panel in of_row[len(row.maps) :]:
                panel.set_axis_off()
            figure.colorbar(image, ax=list(of_row), fraction=0.02, aspect=40)
            of_row[0].set_title(literal(row.label), loc="left", weight="bold")
            of_row[0].set_yticks(range(down), list(map(literal, axes.queries)), fontsize=font)
        for layer, panel in enumerate(panels[0]):
            label_above(panel, f"layer {layer + 1}", 8)
        for panel in panels[-1]:
            panel.set_xticks(range(across), list(map(literal, axes.keys)), rotation=90, fontsize=font)
        figure.suptitle(literal(title), x=0.01, ha="left")
        figure.supxlabel(axes.key_label)
        figure.supylabel(axes.query_label)
        return laid_out(figure, stem)


def laid_out(figure: Figure, stem: Path) -> list[Path]:
    """Lays out the panels, once for all files, and saves the figure."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return save(figure, stem)


def label_above(panel: Panel, text: str, size: float) -> None:
    """Writes what a panel shows above it, below the label of its row."""
    panel.xaxis.set_label_position("top")
    panel.set_xlabel(text, fontsize=size, labelpad=2)


def largest(values: np.ndarray) -> float:
    """The largest absolute value of a map, or 1 if all are zero."""
    return float(np.nanmax(np.abs(values))) or 1.0


def draw_series_maps(title: str, rows: list[Row], series: np.ndarray, stem: Path) -> list[Path]:
    """Draws rows of maps of a time series into ``stem``.png and .svg.

    Each map has its own scale, because logits shrink from layer to layer and probabilities of many steps are small. The
    number above a map is the value of its strongest colour.

    Args:
        series: (T, C) as the model reads it; drawn to the left of each row, for the queries, and below the last row,
            for the keys.
    """
    layers = max(len(row.maps) for row in rows)
    side = PAGE / (layers + 2 * STRIP)
    ratios = {"width_ratios": [STRIP, *[1] * layers], "height_ratios": [*[1] * len(rows), STRIP]}
    with matplotlib.rc_context(LOOKS):
        figure = Figure(figsize=(PAGE, len(rows) * (side + ROW_LABEL) + STRIP * side + HEADING))
        panels = figure.subplots(len(rows) + 1, layers + 1, gridspec_kw=ratios, squeeze=False)
        panels[-1, 0].set_axis_off()
        for row, (strip, *of_row) in zip(rows, panels, strict=False):
            draw_strip(strip, series, upright=True)
            of_row[0].set_title(literal(row.label), loc="left", weight="bold")
            for layer, values in enumerate(row.maps):
                most = largest(values)
                row.draw(of_row[layer], layer, most)
                scale = f"{'±' if row.diverging else 'to '}{most:.2g}"
                label_above(of_row[layer], f"layer {layer + 1}, {scale}", 6)
            for panel in of_row:
                panel.set(xticks=[], yticks=[])
        for layer, strip in enumerate(panels[-1, 1:]):
            draw_strip(strip, series, upright=False)
            if layer:
                strip.set_xticks([])
        figure.suptitle(literal(title), x=0.01, ha="left")
        figure.supxlabel("step that is attended to")
        figure.supylabel("step that attends")
        return laid_out(figure, stem)


def draw_strip(panel: Panel, series: np.ndarray, upright: bool) -> None:
    """Draws the channels of a series (T, C) along an axis of a map; an upright strip starts at the top."""
    steps, count = np.arange(len(series)), len(series)
    for channel, colour in zip(series.T, cycle(OKABE_ITO), strict=False):
        panel.plot(*((channel, steps) if upright else (steps, channel)), color=colour, linewidth=0.5)
    ticks, labels = [0, count - 1], ["1", str(count)]
    if upright:
        panel.set(ylim=(count - 0.5, -0.5), xticks=[])
        panel.set_yticks(ticks, labels, fontsize=6)
        panel.invert_xaxis()
    else:
        panel.set(xlim=(-0.5, count - 0.5), yticks=[])
        panel.set_xticks(ticks, labels, fontsize=6)
    panel.spines[:].set_visible(False)
