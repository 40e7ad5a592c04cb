"""Figures of the statistics of attention maps, by layer."""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ea_fairseq.experiments.figures import PAGE, PLOTS, literal, looks, save
from ea_fairseq.experiments.maps.map_statistics import Curve, Statistics
from ea_fairseq.experiments.maps.sentence_maps import TITLES

UNITS = {"entropy": "entropy, bits", "similarity": "cosine to next layer", "alignment error": "alignment error rate"}


def draw_statistics(models: dict[str, Statistics], out: Path) -> list[Path]:
    """Draws a figure of each measure, with the curves of one model or two by their names; returns the files."""
    measures = next(iter(models.values()))
    return [path for measure in measures for path in draw_measure(measure, models, out)]


def draw_measure(measure: str, models: dict[str, Statistics], out: Path) -> list[Path]:
    """Draws one measure of some models, a panel for each kind of attention and view; returns the files."""
    attentions = list(next(iter(models.values()))[measure])
    views = {"heads: mean, lowest to highest": draw_heads, "mean of the heads' maps": draw_mean}
    shape = (len(views), len(attentions)) if len(attentions) > 1 else (1, len(views))
    with matplotlib.rc_context(PLOTS):
        figure = Figure(figsize=(PAGE, 0.5 + 2.1 * shape[0]))
        panels = iter(figure.subplots(*shape, sharex="col", sharey="row").flat)
        for view, draw in views.items():
            for attention in attentions:
                panel = next(panels)
                for name, look in looks(list(models)).items():
                    draw(panel, models[name][measure][attention], label=literal(name), **look)
                dress(panel, f"{TITLES[attention]}\n{view}", UNITS[measure])
        for panel in figure.axes:
            panel.label_outer()
        columns = len(models) if max(map(len, models)) < 50 else 1
        figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=columns)
        return save(figure, out / measure.replace(" ", "-"))


def draw_heads(panel: Axes, curve: Curve, **look) -> None:
    """Draws the mean over heads by layer, and a band from the lowest to the highest; heads (layers, heads)."""
    layers = range(1, len(curve.heads) + 1)
    panel.plot(layers, curve.heads.mean(1), **look)
    lowest, highest = curve.heads.aminmax(dim=1)
    panel.fill_between(layers, lowest, highest, color=look["color"], alpha=0.2, linewidth=0)


def draw_mean(panel: Axes, curve: Curve, **look) -> None:
    """Draws what the mean of the heads' maps has, by layer."""
    panel.plot(range(1, len(curve.mean) + 1), curve.mean, **look)


def dress(panel: Axes, title: str, unit: str) -> None:
    """Gives a panel its title and its axes."""
    panel.set_title(title)
    panel.set_xlabel("layer")
    panel.set_ylabel(unit)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
