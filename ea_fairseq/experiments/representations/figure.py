"""The figure of representations: a panel for each model, with a colour and a marker for each class."""

from math import ceil
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ea_fairseq.errors import printable
from ea_fairseq.experiments.figures import COLUMN, MARKERS, OKABE_ITO, PAGE, PLOTS, literal, looks, save

MOST = len(OKABE_ITO) * len(MARKERS)  # classes that look different
COLUMNS = 3
LETTERS, LINE = 15, 0.17  # of the legend: letters per inch, line height in inches
LONGEST_TITLE, LONGEST_NAME = 38, 30  # letters shown of a model's name (its end) and of a class's
BOXES = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}


def draw(panels: list[tuple[str, str, np.ndarray]], classes: np.ndarray, names: list[str], stem: Path) -> list[Path]:
    """Draws points; returns the files.

    Args:
        panels: for each model its name, the note below it, and points (N, 2).
        classes: (N,), the number of each point's class.
        names: of the classes; if there are more than 56, looks repeat and there is no legend.
        stem: of the files.
    """
    columns = min(len(panels), COLUMNS)
    rows, width = ceil(len(panels) / columns), COLUMN if columns == 1 else PAGE
    labels = [literal(printable(name)[:LONGEST_NAME]) for name in names]
    in_line = max(1, int(width * LETTERS / (max(map(len, labels)) + 6)))
    lines = ceil(len(names) / in_line) if len(names) <= MOST else 0
    with matplotlib.rc_context(PLOTS | BOXES):
        figure = Figure(figsize=(width, rows * (width / columns + 0.35) + LINE * lines))
        places = figure.subplots(rows, columns, squeeze=False).flat
        for (name, note, points), place in zip(panels, places, strict=False):
            size = np.clip(4000 / len(points), 6, 24)
            for number, look in enumerate(looks(names).values()):
                x, y = points[classes == number].T
                color, marker = look["color"], look["marker"]
                place.scatter(x, y, size, color, marker, label=labels[number], linewidths=0, alpha=0.8)
            title = name if len(name) <= LONGEST_TITLE else f"…{name[-LONGEST_TITLE:]}"
            place.set(title=f"{literal(printable(title))}\n{note}", xticks=[], yticks=[])
            place.set_aspect("equal", adjustable="datalim")
        for place in places:
            place.set_axis_off()
        if lines:
            legend = figure.axes[0].get_legend_handles_labels()
            figure.legend(*legend, loc="outside lower center", ncols=in_line, markerscale=1.5, handletextpad=0.2)
        return save(figure, stem)
