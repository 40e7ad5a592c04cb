"""Statistics of attention maps as files, text and figures."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from ea_fairseq.experiments.figures import PAGE, PLOTS, literal, looks, save
from ea_fairseq.experiments.maps.map_statistics import DEFINITIONS, Statistics
from ea_fairseq.experiments.maps.sentence_maps import TITLES
from ea_fairseq.plain.files import write_csv, write_whole

UNITS = {"entropy": "entropy, bits", "similarity": "cosine to next layer", "alignment error": "alignment error rate"}


class Value(NamedTuple):
    """One number.

    Args:
        head: from 1, or ``mean`` for the mean of the heads' maps.
        layer: from 1; for the similarity, the first of the two layers.
    """

    model: str
    measure: str
    attention: str
    layer: int
    head: int | str
    value: float


def values_of(models: dict[str, Statistics]) -> Iterator[Value]:
    """Yields all numbers of the models, which are given by their names."""
    for model, statistics in models.items():
        for measure, curves in statistics.items():
            for attention, curve in curves.items():
                for layer, (heads, mean) in enumerate(zip(curve.heads.tolist(), curve.mean.tolist(), strict=True), 1):
                    for head, value in enumerate(heads, 1):
                        yield Value(model, measure, attention, layer, head, value)
                    yield Value(model, measure, attention, layer, "mean", mean)


def write_statistics(models: dict[str, Statistics], about: dict[str, object], out: Path) -> list[Path]:
    """Writes statistics.csv, and statistics.json with ``about`` and the definitions; returns their paths."""
    values = list(values_of(models))
    table, record = out / "statistics.csv", out / "statistics.json"
    write_csv(table, [Value._fields, *values])
    found = {**about, "definitions": DEFINITIONS, "values": [value._asdict() for value in values]}
    write_whole(record, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return [table, record]


def table(models: dict[str, Statistics]) -> str:
    """Formats a block of text for each measure and attention, with the layers in columns."""
    blocks = []
    for measure, curves in next(iter(models.values())).items():
        blocks.append(f"{measure}: {DEFINITIONS[measure]}.")
        for attention in curves:
            rows = {}
            for name, statistics in models.items():
                curve = statistics[measure][attention]
                rows[f"{name}, mean over heads"] = curve.heads.mean(1)
                if measure == "alignment error":
                    rows[f"{name}, best head"] = curve.heads.amin(1)
                rows[f"{name}, mean of the heads' maps"] = curve.mean
            blocks.append(block(attention, rows))
    return "\n\n".join(blocks)


def block(title: str, rows: dict[str, Tensor]) -> str:
    """Formats a table as text: a row for each label, a column for each layer."""
    width = max(map(len, rows))
    lines = [f"{title:{width + 2}}" + "".join(f"{layer:7}" for layer in range(1, max(map(len, rows.values())) + 1))]
    lines += [f"  {label:{width}}" + "".join(f"{value:7.3f}" for value in row.tolist()) for label, row in rows.items()]
    return "\n".join(lines)


def draw_statistics(models: dict[str, Statistics], out: Path) -> list[Path]:
    """Draws a figure of each measure, with the curves of all models; returns the files."""
    measures = next(iter(models.values()))
    return [path for measure in measures for path in draw_measure(measure, models, out)]


def draw_measure(measure: str, models: dict[str, Statistics], out: Path) -> list[Path]:
    """Draws a measure by layer: for each attention, one panel for its heads and one for the mean of their maps."""
    attentions = list(next(iter(models.values()))[measure])
    views = ("heads: mean, lowest to highest", "mean of the heads' maps")
    shape = (len(views), len(attentions)) if len(attentions) > 1 else (1, len(views))
    with matplotlib.rc_context(PLOTS):
        figure = Figure(figsize=(PAGE, 0.5 + 2.1 * shape[0]))
        panels = figure.subplots(*shape, sharex="col", sharey="row").flat
        for panel, (view, attention) in zip(panels, product(views, attentions), strict=True):
            for name, look in looks(list(models)).items():
                curve = models[name][measure][attention]
                layers = range(1, len(curve.mean) + 1)
                of_heads = view == views[0]
                panel.plot(layers, curve.heads.mean(1) if of_heads else curve.mean, label=literal(name), **look)
                if of_heads:
                    lowest, highest = curve.heads.aminmax(dim=1)
                    panel.fill_between(layers, lowest, highest, color=look["color"], alpha=0.2, linewidth=0)
            panel.set(title=f"{TITLES[attention]}\n{view}", xlabel="layer", ylabel=UNITS[measure])
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        for panel in figure.axes:
            panel.label_outer()
        columns = len(models) if max(map(len, models)) < 50 else 1
        figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=columns)
        return save(figure, out / measure.replace(" ", "-"))
