"""How figures look and how they are saved: legible at half a page, to colour-blind readers and in grey."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from step import StepError

try:
    import matplotlib as mpl
except ImportError:
    raise StepError("figures need matplotlib: pip install 'ea-fairseq[plots]'.") from None

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches
OKABE_ITO = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "svg.hashsalt": "ea-fairseq",
    "svg.fonttype": "path",
}


@contextmanager
def styled() -> Iterator[None]:
    with plt.rc_context(STYLE):
        yield


def looks(names: list[str]) -> dict[str, dict[str, str]]:
    """A colour, a line style and a marker for each name, in their order."""
    styles = zip(cycle(OKABE_ITO), cycle(LINES), cycle(MARKERS), strict=False)
    return {
        name: {"color": color, "linestyle": line, "marker": marker}
        for name, (color, line, marker) in zip(names, islice(styles, len(names)), strict=True)
    }


def save(figure: Figure, stem: Path) -> None:
    """Writes STEM.png and STEM.svg; the same figure gives the same bytes."""
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        unfinished = stem.with_name(f"{stem.name}.{kind}.tmp")
        figure.savefig(unfinished, format=kind, metadata=metadata)
        unfinished.replace(stem.with_name(f"{stem.name}.{kind}"))
    plt.close(figure)
