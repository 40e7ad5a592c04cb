"""The style of figures, and saving them: legible at half a page, for colour-blind readers and in grey."""

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from ea_fairseq.plain.files import replacing

COLUMN, PAGE = 3.4, 7.0  # widths in inches
OKABE_ITO = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
UNDATED = {"png": {"Software": None}, "svg": {"Date": None}}
KINDS = tuple(UNDATED)
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "ea-fairseq",
}
PLOTS = STYLE | {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "figure.constrained_layout.use": True,
}


def literal(text: str) -> str:
    """Escapes dollar signs, between which matplotlib would read a TeX formula."""
    return text.replace("$", r"\$")


def looks(names: list[str]) -> dict[str, dict[str, str]]:
    """Assigns each name a colour, a line style and a marker, in the order of the names."""
    styles = zip(names, cycle(OKABE_ITO), cycle(LINES), cycle(MARKERS), strict=False)
    return {name: {"color": color, "linestyle": line, "marker": marker} for name, color, line, marker in styles}


def draw(
    figures: Iterable[tuple[str, str, Figure]], folder: Path, prefix: str = "", kinds: tuple[str, ...] = KINDS
) -> list[tuple[Path, str]]:
    """Saves figures, given by name and caption, into a folder; returns each one's last file, and its caption."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(PLOTS):
        return [(save(figure, folder / f"{prefix}{name}", kinds)[-1], caption) for name, caption, figure in figures]


def save(figure: Figure, stem: Path, kinds: tuple[str, ...] = KINDS) -> list[Path]:
    """Writes ``stem``.png and .svg, each whole or not at all, the same bytes every time; returns their paths."""
    paths = []
    for kind in kinds:
        path = stem.with_name(f"{stem.name}.{kind}")
        with replacing(path) as unfinished:
            figure.savefig(unfinished, format=kind, metadata=UNDATED[kind])
        paths.append(path)
    return paths
