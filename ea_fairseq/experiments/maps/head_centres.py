"""Centres and widths of heads of quadratic attention, to words or pixels, during training (CONV-SA figures 3 and 4)."""

import math
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from ea_fairseq.attention.maps import NAME, kind_of
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.figures import PAGE, PLOTS, looks, save
from ea_fairseq.experiments.maps.sentence_maps import TITLES
from ea_fairseq.experiments.runs.averaging import ANY, trained
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.plain.files import write_csv
from ea_fairseq.terms.quadratic import QuadraticPositions

CENTRE = ".centre"
TERM = re.compile(r"encoder\.layers\.(\d+)\.self_attn\.(?:mechanism\.)?terms\.\d+\.centre")
SHARES = {0.5: 0.35, 0.9: 0.12}  # probability inside an ellipse, and the opacity of the ellipse
NEAR = 0.5  # from a position of the grid, in patches
MOST_MOMENTS = 3  # checkpoints that are drawn: the first, middle and last of a training


class HeadCentre(NamedTuple):
    """A head after a number of updates.

    Args:
        attention: ``encoder`` or ``decoder``, for their self-attention.
        layer, head: numbers from 1.
        centre: of the Gaussian, in words after the query.
        width: standard deviation of the Gaussian, in words.
    """

    attention: str
    layer: int
    head: int
    update: int
    centre: float
    width: float


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


def draw_centres(path: Path, out: Path) -> list[Path]:
    """Writes centres.csv, and draws centres.png and .svg, for a checkpoint or a folder of them; returns the files.

    Raises:
        UserError: if there is no checkpoint, or one has no quadratic attention.
    """
    read = checkpoints(path)
    out.mkdir(parents=True, exist_ok=True)
    of_pixels = any(TERM.fullmatch(name) and tensor.dim() == 2 for name, tensor in read[0].state["model"].items())
    heads: Any = pixel_heads_of if of_pixels else heads_of
    found = sorted(head for checkpoint in read for head in heads(checkpoint))
    table = out / "centres.csv"
    write_csv(table, [found[0]._fields, *found])
    return [table, *(draw_pixels if of_pixels else draw)(found, out / "centres")]


def checkpoints(path: Path) -> list[Checkpoint]:
    """Reads a training's checkpoints in a folder, one for each number of updates, or the one that the path names."""
    if not path.is_dir():
        return [Checkpoint.read(path)]
    paths = sorted(file for file in path.iterdir() if ANY.fullmatch(file.name))
    found = {checkpoint.updates: checkpoint for checkpoint in trained(paths)}
    if not found:
        raise UserError(f"{path} has no checkpoints of a training: give the folder of a training, or name a file.")
    return list(found.values())


def heads_of(checkpoint: Checkpoint) -> Iterator[HeadCentre]:
    """Yields the heads of all quadratic self-attentions.

    Raises:
        UserError: if there is none.
    """
    model = checkpoint.state["model"]
    terms = [name.removesuffix(CENTRE) for name in model if ".terms." in name and name.endswith(CENTRE)]
    if not terms:
        raise UserError(
            f"{checkpoint.path} has no quadratic attention: give one of a model with --relative-positions quadratic."
        )
    for name in terms:
        attention = name.partition(".terms.")[0]
        match, kind = NAME.fullmatch(attention), kind_of(attention)
        if match is None or kind is None:
            raise UserError(f"{checkpoint.path} has a quadratic attention outside a Transformer: {attention}.")
        layer = int(match[2])
        term = QuadraticPositions(LayerContext(kind, layer), 0, len(model[name + CENTRE]))
        term.load_state_dict({key: model[f"{name}.{key}"] for key in term.state_dict()})
        for head, numbers in enumerate(zip(term.centres.tolist(), term.widths.tolist(), strict=True), 1):
            yield HeadCentre(kind, layer + 1, head, checkpoint.updates, *numbers)


def draw(found: list[HeadCentre], stem: Path) -> list[Path]:
    """Draws a row of panels for each kind of attention, one for each layer; returns the files."""
    kinds = [kind for kind in TITLES if any(head.attention == kind for head in found)]
    layers, heads = (max(getattr(head, name) for head in found) for name in ("layer", "head"))
    with matplotlib.rc_context(PLOTS):
        figure = Figure(figsize=(PAGE, 0.5 + 1.7 * len(kinds)))
        panels = figure.subplots(len(kinds), layers, sharex=True, sharey="row", squeeze=False)
        styles = looks([f"head {head}" for head in range(1, heads + 1)])
        for (kind, layer), of_panel in groupby(found, lambda head: (head.attention, head.layer)):
            panel = panels[kinds.index(kind), layer - 1]
            for head, moments in groupby(of_panel, lambda head: head.head):
                draw_head(panel, list(moments), label=f"head {head}", **styles[f"head {head}"])
            panel.set_title(f"layer {layer}")
            panel.xaxis.set_major_locator(MaxNLocator(2, integer=True))
        for row, kind in zip(panels, kinds, strict=True):
            row[0].set_ylabel(f"{TITLES[kind]}\nwords after the query")
        figure.supxlabel("update; a line is a head's centre, its band one width on both sides", fontsize=8)
        handles = panels[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=min(heads, 8))
        return save(figure, stem)


def draw_head(panel: Axes, moments: list[HeadCentre], **look: Any) -> None:
    """Draws a head's centre over updates, with a band of one width on both sides."""
    updates, centres, widths = (
        np.array([getattr(head, name) for head in moments]) for name in ("update", "centre", "width")
    )
    panel.plot(updates, centres, markersize=2, **look)
    panel.fill_between(updates, centres - widths, centres + widths, color=look["color"], alpha=0.12, linewidth=0)


def pixel_heads_of(checkpoint: Checkpoint) -> Iterator[PixelHead]:
    """Yields the heads of all quadratic attentions; raises UserError if there is none."""
    model = checkpoint.state["model"]
    names = list(filter(TERM.fullmatch, model))
    if not names:
        raise UserError(f"{checkpoint.path} has no --relative-positions quadratic_image or quadratic_image_general.")
    for name in names:
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


def draw_pixels(found: list[PixelHead], stem: Path) -> list[Path]:
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
                    draw_pixel_head(panel, head, styles[f"head {head.head}"]["color"])
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


def draw_pixel_head(panel: Axes, head: PixelHead, colour: str) -> None:
    """Draws a head's centre, and the ellipses around it."""
    covariance = [[head.column_variance, head.covariance], [head.covariance, head.row_variance]]
    variances, axes = np.linalg.eigh(np.array(covariance))
    angle = math.degrees(math.atan2(axes[1, 1], axes[0, 1]))
    for share, opacity in SHARES.items():
        height, width = 2 * np.sqrt(np.maximum(variances, 0) * -2 * math.log(1 - share))
        panel.add_patch(Ellipse((head.column, head.row), width, height, angle=angle, color=colour, alpha=opacity))
    panel.plot(head.column, head.row, ".", color=colour, markersize=4)
