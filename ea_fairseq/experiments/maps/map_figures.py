"""Figures of attention maps: a row of maps for each stage of their evolution, a column for each layer."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes as Panel
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from ea_fairseq.experiments.figures import PAGE, STYLE, literal, save

THIN = {"axes.linewidth": 0.5, "xtick.major.width": 0.5, "ytick.major.width": 0.5}
BLANK = "0.8"  # grey
POINT = 1 / 72  # all lengths are in inches
LEAST_CELL, MOST_CELL = 5.5 * POINT, 12 * POINT
EDGE, GAP, LINE = 0.08, 0.08, 0.17
BAR, BAR_NUMBERS = 0.08, 0.45
ROW_LABEL, HEADING = 1.6 * LINE, 2 * LINE


@dataclass(frozen=True)
class Row:
    """A row of maps.

    Args:
        label: of the row.
        maps: (T, S) of each layer, NaN where a query must not see a key.
        diverging: whether the values are logits, about 0, or else probabilities.
    """

    label: str
    maps: list[np.ndarray]
    diverging: bool


@dataclass(frozen=True)
class Axes:
    """What is along the T rows and S columns of all maps of a figure, and the words there."""

    queries: list[str]
    keys: list[str]
    query_label: str
    key_label: str


@dataclass(frozen=True)
class Layout:
    """Where the panels of a figure go: as large as the page's width lets them be, and legible where it does not.

    Args:
        rows, layers: how many.
        down, across: entries of a map.
        longest_query, longest_key: letters of the longest word.
    """

    rows: int
    layers: int
    down: int
    across: int
    longest_query: int
    longest_key: int

    @property
    def cell(self) -> float:
        """The side of an entry."""
        room = PAGE - EDGE - LINE - (self.layers + 1) * GAP - BAR - BAR_NUMBERS  # for maps and words
        return min(max(room / (self.layers * self.across + 0.6 * self.longest_query), LEAST_CELL), MOST_CELL)

    @property
    def font(self) -> float:
        """The size of the words, in points."""
        return min(8.0, 0.95 * self.cell / POINT)

    def words(self, letters: int) -> float:
        """The width of a word of so many letters, in inches, with its gap."""
        return 0.6 * letters * self.font * POINT + GAP

    @property
    def left(self) -> float:
        """Inches left of the first map, for the words of queries."""
        return EDGE + LINE + self.words(self.longest_query)

    @property
    def bottom(self) -> float:
        """Inches below the last map, for the words of keys."""
        return EDGE + LINE + self.words(self.longest_key)

    @property
    def right(self) -> float:
        """Where the last panel ends."""
        return self.left + self.layers * (self.across * self.cell + GAP) - GAP

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the figure in inches."""
        rows = self.rows * (self.down * self.cell + ROW_LABEL)
        return max(PAGE, self.right + GAP + BAR + BAR_NUMBERS), self.bottom + rows + HEADING

    def panel(self, row: int, layer: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height; rows are counted from the top."""
        width, height = self.across * self.cell, self.down * self.cell
        up = self.bottom + (self.rows - 1 - row) * (height + ROW_LABEL)
        return self.left + layer * (width + GAP), up, width, height

    def bar(self, row: int) -> tuple[float, float, float, float]:
        """Where the colour bar of a row stands: left, bottom, width and height in inches."""
        _, up, _, height = self.panel(row, 0)
        return self.right + GAP, up, BAR, height

    def part(self, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """A box as matplotlib takes it, in parts of the figure."""
        width, height = self.size
        left, up, across, down = box
        return left / width, up / height, across / width, down / height


def draw_maps(title: str, rows: list[Row], axes: Axes, stem: Path) -> list[Path]:
    """Draws rows of maps into ``stem``.png and .svg: one scale for each row, grey where a query must not see a key."""
    longest = [max(map(len, words)) for words in (axes.queries, axes.keys)]
    queries, keys = (list(map(literal, words)) for words in (axes.queries, axes.keys))
    layers = max(len(row.maps) for row in rows)
    layout = Layout(len(rows), layers, len(axes.queries), len(axes.keys), *longest)
    width, height = layout.size
    with matplotlib.rc_context(STYLE | THIN):
        figure = Figure(figsize=(width, height))
        for number, row in enumerate(rows):
            panels = [figure.add_axes(layout.part(layout.panel(number, layer))) for layer in range(len(row.maps))]
            image = draw_row(row, panels)
            figure.colorbar(image, cax=figure.add_axes(layout.part(layout.bar(number))))
            for panel in panels:
                panel.set_xticks(range(layout.across), keys if row is rows[-1] else [], rotation=90)
                panel.set_yticks(range(layout.down), queries if panel is panels[0] else [])
                panel.tick_params(length=1.5, pad=1.5, labelsize=layout.font)
            left, up, _, down = layout.panel(number, 0)
            above = (up + down + 0.3 * LINE + (LINE if number == 0 else 0)) / height
            figure.text(left / width, above, literal(row.label), weight="bold")
        for layer in range(layers):
            left, up, across, down = layout.panel(0, layer)
            figure.text(
                (left + across / 2) / width, (up + down + 0.3 * LINE) / height, f"layer {layer + 1}", ha="center"
            )
        figure.text(EDGE / width, 1 - EDGE / height, literal(title), va="top", fontsize=9)
        figure.text((layout.left + layout.right) / 2 / width, EDGE / height, axes.key_label, ha="center")
        middle = (layout.bottom + height - HEADING) / 2
        figure.text(EDGE / width, middle / height, axes.query_label, rotation=90, va="center")
        return save(figure, stem)


def draw_row(row: Row, panels: list[Panel]) -> AxesImage:
    """Draws a row's maps, all by one scale; returns one of the images, for the colour bar."""
    low, high, colours = scale_of(row)
    for panel, values in zip(panels, row.maps, strict=True):
        image = panel.imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest", aspect="auto")
    return image


def scale_of(row: Row) -> tuple[float, float, Colormap]:
    """The limits and colours of a row: logits by their greatest size about 0, probabilities from 0 to 1."""
    if not row.diverging:
        return 0.0, 1.0, colormaps["viridis"].with_extremes(bad=BLANK)
    most = max(float(np.nanmax(np.abs(values))) for values in row.maps) or 1.0
    return -most, most, colormaps["RdBu_r"].with_extremes(bad=BLANK)
