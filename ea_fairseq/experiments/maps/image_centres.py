"""Centres and widths of the heads of quadratic attention to pixels (CONV-SA figures 3 and 4)."""

import math
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.figures import PAGE, PLOTS, looks, save
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.plain.files import write_csv

TERM = re.compile(r"encoder\.layers\.(\d+)\.self_attn\.(?:mechanism\.)?terms\.\d+\.centre")
SHARES = {0.5: 0.35, 0.9: 0.12}  # probability inside an ellipse, and the opacity of the ellipse
NEAR = 0.5  # from a position of the grid, in patches
MOST_MOMENTS = 3  # checkpoints that are drawn: the first, middle and last of a training


class PixelHead(NamedTuple):
    """A head after a number of updates.

    Args:
        layer, head: numbers from 1.
        row, column: centre of its Gaussian, in patches from the query.
        row_variance, covariance, column_variance: of the Gaussian.
    """

    layer: int
    head: int
    update: int
    row: float
    column: float
    row_variance: float
    covariance: float
    column_variance: float

    @property
    def is_near(self) -> bool:
        """Whether the centre is at most half a patch from a position of the grid."""
        return math.dist((self.row, self.column), (round(self.row), round(self.column))) <= NEAR


def is_of_pixels(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint has two-dimensional centres."""
    return any(TERM.fullmatch(name) and tensor.dim() == 2 for name, tensor in checkpoint.state["model"].items())


def draw_pixel_heads(checkpoints: list[Checkpoint], out: Path) -> list[Path]:
    """Writes centres.csv for checkpoints, and draws centres.png and .svg; returns the files.

    Raises:
        UserError: if a checkpoint has no quadratic attention to pixels.
    """
    found = sorted(head for checkpoint in checkpoints for head in heads_of(checkpoint))
    table = out / "centres.csv"
    write_csv(table, [PixelHead._fields, *found])
    return [table, *draw(found, out / "centres")]


def heads_of(checkpoint: Checkpoint) -> Iterator[PixelHead]:
    """Yields the heads of all quadratic attentions; raises UserError if there is none."""
    if not is_of_pixels(checkpoint):
        raise UserError(f"{checkpoint.path} has no --relative-positions quadratic_image or quadratic_image_general.")
    model = checkpoint.state["model"]
    for name in filter(TERM.fullmatch, model):
        match, stem = TERM.fullmatch(name), name.removesuffix("centre")
        assert match is not None
        for head, covariance in enumerate(covariances(model, stem)):
            row, column = model[name][head].tolist()
            (row_variance, shared), (_, column_variance) = covariance.tolist()
            place = int(match[1]) + 1, head + 1, checkpoint.updates
            yield PixelHead(*place, row, column, row_variance, shared, column_variance)


def covariances(model: dict[str, torch.Tensor], stem: str) -> torch.Tensor:
    """The covariances (K, 2, 2) of the Gaussians: (S S^T)^-1, or 1 / a^2 in both directions."""
    if (root := model.get(f"{stem}root")) is not None:
        return torch.linalg.pinv(root.double() @ root.double().transpose(1, 2))
    return torch.eye(2).double() / model[f"{stem}sharpness"].double().square()[:, None, None]


def draw(found: list[PixelHead], stem: Path) -> list[Path]:
    """Draws a panel for each layer, and a row for the first, middle and last checkpoint; returns the files."""
    updates = sorted({head.update for head in found})
    chosen = sorted({updates[0], updates[len(updates) // 2], updates[-1]})[:MOST_MOMENTS]
    layers, heads = (max(getattr(head, name) for head in found) for name in ("layer", "head"))
    reach = max(3.0, *(1 + abs(place) for head in found for place in (head.row, head.column)))
    with matplotlib.rc_context(PLOTS):
        figure = Figure(figsize=(PAGE, 0.6 + (PAGE / layers + 0.15) * len(chosen)))
        panels = figure.subplots(len(chosen), layers, sharex=True, sharey=True, squeeze=False)
        styles = looks([f"head {head}" for head in range(1, heads + 1)])
        for (layer, update), of_panel in groupby(
            sorted(found, key=lambda head: (head.layer, head.update, head.head)), lambda head: head[:3:2]
        ):
            if update in chosen:
                panel, drawn = panels[chosen.index(update), layer - 1], list(of_panel)
                for head in drawn:
                    draw_head(panel, head, styles[f"head {head.head}"]["color"])
                near = sum(head.is_near for head in drawn)
                panel.set(
                    title=f"layer {layer}, {near} of {len(drawn)} near", xlim=(-reach, reach), ylim=(reach, -reach)
                )
                panel.set_aspect("equal")
                panel.plot(0, 0, "k+", markersize=6)
        for row, update in zip(panels, chosen, strict=True):
            row[0].set_ylabel(f"update {update}\nrows from the query")
        figure.supxlabel(
            "columns from the query; ellipses enclose 50% and 90% of a head's probability\n"
            "near: at most half a patch from a position of the grid",
            fontsize=8,
        )
        return save(figure, stem)


def draw_head(panel: Axes, head: PixelHead, colour: str) -> None:
    """Draws a head's centre, and the ellipses around it."""
    covariance = [[head.column_variance, head.covariance], [head.covariance, head.row_variance]]
    variances, axes = np.linalg.eigh(np.array(covariance))
    angle = math.degrees(math.atan2(axes[1, 1], axes[0, 1]))
    for share, opacity in SHARES.items():
        height, width = 2 * np.sqrt(np.maximum(variances, 0) * -2 * math.log(1 - share))
        panel.add_patch(Ellipse((head.column, head.row), width, height, angle=angle, color=colour, alpha=opacity))
    panel.plot(head.column, head.row, ".", color=colour, markersize=4)
