"""A page that shows which pixels of an image each pixel attends to, in every layer."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ea_fairseq.attention.maps import AttentionMaps
from ea_fairseq.attention.mechanism import Grid
from ea_fairseq.errors import UserError
from ea_fairseq.explorer.fixed_point import FixedPoint
from ea_fairseq.explorer.template import EXPLORER, filled
from ea_fairseq.plain.files import write_whole

MOST_TOKENS = 256  # per map; with so many, six layers of six heads take 7 MB


@dataclass(frozen=True)
class Picture:
    """An image, and how the tokens of each attention divide it.

    Args:
        pixels: (H, W, C), uint8.
        grids: of tokens, by the name of the attention.
    """

    pixels: np.ndarray
    grids: dict[str, Grid]


def image_record(name: str, note: str, maps: Mapping[str, AttentionMaps], picture: Picture) -> dict:
    """The page's data of a model: the grid of each layer, the probabilities of its heads, and their mean.

    Raises:
        UserError: if a map has more tokens than a page holds.
    """
    layers = []
    for place, found in maps.items():
        grid, probabilities = picture.grids[place], found.probabilities.float()
        if grid.tokens > MOST_TOKENS:
            raise UserError(f"a map has {grid.tokens} tokens, but a page shows {MOST_TOKENS}: use smaller images")
        rounded = FixedPoint.of(probabilities, probabilities.isnan())
        layers.append(
            {
                "rows": grid.rows,
                "columns": grid.columns,
                "leading": grid.leading,
                "heads": len(probabilities),
                "digits": rounded.digits,
                "maps": rounded.text,
            }
        )
    return {"name": name, "note": note, "layers": layers}


def write_image_page(path: str | Path, models: list[dict], picture: Picture, title: str) -> Path:
    """Writes the page, whole or not at all; returns its path.

    Args:
        models: records of :func:`image_record`, of the same image.
    """
    height, width, channels = picture.pixels.shape
    colours = np.broadcast_to(picture.pixels, (height, width, 3)) if channels == 1 else picture.pixels
    pixels = base64.b64encode(np.ascontiguousarray(colours).tobytes()).decode("ascii")
    data = {"height": height, "width": width, "pixels": pixels, "models": models}
    styles = [EXPLORER / "theme.css", EXPLORER / "image.css"]
    write_whole(Path(path), filled(EXPLORER / "image.html", title, styles, [EXPLORER / "image.js"], data))
    return Path(path)
