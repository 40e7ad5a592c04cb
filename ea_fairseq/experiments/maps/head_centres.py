"""Centres and widths of the heads of quadratic attention during training (CONV-SA figure 3)."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ea_fairseq.attention.maps import NAME, kind_of
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.figures import PAGE, PLOTS, looks, save
from ea_fairseq.experiments.maps.image_centres import draw_pixel_heads, is_of_pixels
from ea_fairseq.experiments.maps.sentence_maps import TITLES
from ea_fairseq.experiments.runs.averaging import ANY
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.plain.files import write_csv
from ea_fairseq.terms.quadratic import QuadraticPositions

CENTRE = ".centre"


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


def draw_centres(path: Path, out: Path) -> list[Path]:
    """Writes centres.csv, and draws centres.png and .svg, for a checkpoint or a folder of them; returns the files.

    Raises:
        UserError: if there is no checkpoint, or one has no quadratic attention.
    """
    read = checkpoints(path)
    out.mkdir(parents=True, exist_ok=True)
    if is_of_pixels(read[0]):
        return draw_pixel_heads(read, out)
    found = sorted(head for checkpoint in read for head in heads_of(checkpoint))
    table = out / "centres.csv"
    write_csv(table, [HeadCentre._fields, *found])
    return [table, *draw(found, out / "centres")]


def checkpoints(path: Path) -> list[Checkpoint]:
    """Reads the checkpoints of a folder, one for each number of updates, or the one that the path names."""
    paths = sorted(file for file in path.iterdir() if ANY.fullmatch(file.name)) if path.is_dir() else [path]
    if not paths:
        raise UserError(f"{path} has no checkpoints: give the folder of a training.")
    return list({checkpoint.updates: checkpoint for checkpoint in map(Checkpoint.read, paths)}.values())


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
