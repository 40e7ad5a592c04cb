"""What is drawn in the panels of a figure: lines, bands and bars of errors."""

from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.container import ErrorbarContainer

Places = list[tuple[float, float]]


def lines(panel: Axes) -> list[Places]:
    """The points of each line."""
    return [list(map(tuple, line.get_xydata().tolist())) for line in panel.get_lines()]


def band(drawn: Collection) -> dict[float, tuple[float, float]]:
    """From where to where a band reaches, by its places along the axis."""
    edge = drawn.get_paths()[0].vertices.tolist()
    return {x: (min(y for at, y in edge if at == x), max(y for at, y in edge if at == x)) for x, _ in edge}


def error_bars(drawn: ErrorbarContainer) -> list[list[list[float]]]:
    """The two ends of each bar."""
    return [segment.tolist() for bars in drawn.lines[2] for segment in bars.get_segments()]
