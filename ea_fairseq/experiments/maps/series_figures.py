"""Figures of attention maps of a time series, which is drawn along both axes of each map."""

from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ea_fairseq.experiments.figures import OKABE_ITO, PAGE, STYLE, literal, save
from ea_fairseq.experiments.maps.map_figures import THIN, Row, scale_of

STRIP = 0.35  # of a map's side: what the series takes beside it
HEADING, ROW_LABEL, TICKS, EDGE = 0.25, 0.32, 0.45, 0.08  # inches


def draw_series_maps(title: str, rows: list[Row], series: np.ndarray, stem: Path) -> list[Path]:
    """Draws rows of maps into ``stem``.png and .svg: a column for each layer.

    Each map has a scale of its own, for logits shrink from layer to layer and probabilities of many steps are small:
    above it stands the number that the strongest colour means.

    Args:
        series: (T, C) as the model reads it; it stands left of each row, for the steps that ask, and below the last
            row, for those that are read.
    """
    layers = max(len(row.maps) for row in rows)
    side = (PAGE - EDGE - TICKS) / (layers + STRIP)
    height = HEADING + len(rows) * (side + ROW_LABEL) + STRIP * side + TICKS
    with matplotlib.rc_context(STYLE | THIN):
        figure = Figure(figsize=(PAGE, height))

        def panel(left: float, bottom: float, width: float, tall: float) -> Axes:
            return figure.add_axes((left / PAGE, bottom / height, width / PAGE, tall / height))

        first, below = TICKS + STRIP * side, TICKS + STRIP * side
        for number, row in enumerate(rows):
            bottom = below + (len(rows) - 1 - number) * (side + ROW_LABEL)
            draw_strip(panel(TICKS, bottom, 0.92 * STRIP * side, 0.94 * side), series, upright=True)
            for layer, values in enumerate(row.maps):
                place = panel(first + layer * side, bottom, 0.94 * side, 0.94 * side)
                draw_map(place, values, row.diverging)
                place.set_title(f"layer {layer + 1}{place.get_title()}", pad=2, fontsize=6)
            figure.text(TICKS / PAGE, (bottom + side + 0.1) / height, literal(row.label), weight="bold", va="bottom")
        for layer in range(layers):
            strip = panel(first + layer * side, TICKS, 0.94 * side, 0.92 * STRIP * side)
            draw_strip(strip, series, upright=False)
            if layer:
                strip.set_xticks([])
        figure.text(0.5, 0.04 / height, "step that is read", ha="center", va="bottom")
        figure.text(0.08 / PAGE, (below + height - HEADING) / 2 / height, "step that asks", rotation=90, va="center")
        figure.text(TICKS / PAGE, 1 - 0.06 / height, literal(title), va="top", fontsize=9)
        return save(figure, stem)


def draw_map(panel: Axes, values: np.ndarray, diverging: bool) -> None:
    """Draws a map (T, T), logits by their greatest size about 0, probabilities from 0; the title tells how much."""
    most = float(np.nanmax(np.abs(values))) or 1.0
    low, _, colours = scale_of(Row("", [values], diverging))
    panel.imshow(values, cmap=colours, vmin=low and -most, vmax=most, interpolation="nearest", aspect="auto")
    panel.set_title(f", {'±' if diverging else 'to '}{most:.2g}")
    panel.set_xticks([])
    panel.set_yticks([])


def draw_strip(panel: Axes, series: np.ndarray, upright: bool) -> None:
    """Draws the channels of a series (T, C) along an axis of a map, from the top where it stands upright."""
    steps, count = np.arange(len(series)), len(series)
    for channel, colour in zip(series.T, cycle(OKABE_ITO), strict=False):
        panel.plot(*((channel, steps) if upright else (steps, channel)), color=colour, linewidth=0.5)
    ends = [0, count - 1]
    if upright:
        panel.set_ylim(count - 0.5, -0.5)
        panel.set_yticks(ends, [1, count])
        panel.set_xticks([])
        panel.invert_xaxis()
    else:
        panel.set_xlim(-0.5, count - 0.5)
        panel.set_xticks(ends, [1, count])
        panel.set_yticks([])
    panel.spines[:].set_visible(False)
    panel.tick_params(length=1.5, pad=1, labelsize=6)
