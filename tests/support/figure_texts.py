"""What stands in a figure, letter by letter."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import matplotlib

NAMES = ["cost $^$", "$x_1$", "10$-20$", "\\$ or $"]  # which matplotlib would read as formulas, good and bad ones


@contextmanager
def with_texts() -> Iterator[None]:
    """Within it, figures are saved with texts instead of the outlines of their letters."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        yield


def texts_of(figure: Path) -> set[str]:
    """The texts of an SVG file that was saved so."""
    return {"".join(found.itertext()) for found in ElementTree.parse(figure).iter("{http://www.w3.org/2000/svg}text")}
