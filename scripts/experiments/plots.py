"""The papers' figures 5 and 9 and scores against sizes, of one's own results."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.comparison import Comparison, Spread
from experiments.curves import Band, band
from experiments.figures import COLUMN, PAGE, looks
from experiments.results import Point, Results

WARM_UP = 0.1  # the part of a training whose high losses figures leave out
CURVES = {
    "training-loss": ("train_curve", "training loss (bits per token)", lambda point: point.loss),
    "validation-loss": ("valid_curve", "validation loss (bits per token)", lambda point: point.loss),
    "validation-bleu": ("valid_curve", "validation BLEU", lambda point: point.bleu),
}
EVOLUTION = ("ea_alpha", "ea_beta")
LABELS = {"ea_alpha": "alpha", "ea_beta": "beta"}


def plots(comparison: Comparison) -> Iterator[tuple[str, str, Figure]]:
    """Name, caption and figure of all that there is something to draw of."""
    for dataset in comparison.datasets:
        for name, (curve, label, value) in CURVES.items():
            if figure := learning_curves(comparison, dataset, curve, label, value):
                caption = f"{dataset}: {label}, by updates and by the clock. {bands(comparison)}"
                yield f"{dataset}-{name}", caption, figure
        for number, grid in enumerate(evolution_grids(comparison, dataset), 1):
            caption = f"{dataset}: {comparison.score} by alpha and beta, of {grid[0].arch}."
            yield f"{dataset}-alpha-beta-{number}", caption, evolution_figure(comparison, grid)
        if figure := score_by_size(comparison, dataset):
            caption = f"{dataset}: {comparison.score} by parameters (without embeddings and output projection)."
            yield f"{dataset}-parameters", f"{caption} Bars are standard deviations over seeds.", figure


def bands(comparison: Comparison) -> str:
    several = any(len(seeds) > 1 for seeds in comparison.by_seed.values())
    return "Lines are means over seeds, bands reach from the lowest to the highest." if several else "One seed each."


def learning_curves(
    comparison: Comparison, dataset: str, curve: str, label: str, value: Callable[[Point], float | None]
) -> Figure | None:
    """A curve for each model: on the left against updates, on the right against wall-clock."""
    curves = {
        model: [getattr(result, curve) for result in comparison.results(model, dataset).values()]
        for model in comparison.models
    }
    longest = max((line[-1].seconds for lines in curves.values() for line in lines if line), default=0)
    unit, seconds = ("hours", 3600) if longest >= 2 * 3600 else ("minutes", 60)
    drawn = {}
    for axis, x in (("updates", lambda point: point.updates), (unit, lambda point: point.seconds / seconds)):
        found = {model: band(lines, x, value) for model, lines in curves.items()}
        drawn[axis] = {model: line for model, line in found.items() if line is not None}
    if not any(drawn.values()):
        return None
    style = looks(comparison.models)
    figure = Figure(figsize=(PAGE, 2.5))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (axis, lines) in zip(panels, drawn.items(), strict=True):
        for model, line in lines.items():
            draw_band(panel, line, model, style[model])
        panel.set_xlabel(axis if axis == "updates" else f"wall-clock ({axis})")
        panel.set_xlim(left=0)
    panels[0].set_ylabel(label)
    zoom(panels[0], list(drawn["updates"].values()))
    panels[0].legend(loc="best")
    return figure


def draw_band(panel: Axes, line: Band, model: str, style: dict[str, str]) -> None:
    marks = {"marker": style["marker"], "markevery": 0.2}
    panel.plot(line.x, line.middle, label=model, color=style["color"], linestyle=style["linestyle"], **marks)
    if not np.array_equal(line.low, line.high):
        panel.fill_between(line.x, line.low, line.high, color=style["color"], alpha=0.2, linewidth=0)


def zoom(panel: Axes, lines: list[Band]) -> None:
    """Leaves out how high curves of losses start, and how low those of scores do."""
    shown = [
        values[line.x >= WARM_UP * line.x[-1]] for line in lines for values in (line.low, line.high) if len(line.x)
    ]
    shown = np.concatenate([values for values in shown if len(values)])
    margin = 0.05 * float(np.ptp(shown)) or 0.5
    panel.set_ylim(shown.min() - margin, shown.max() + margin)


def evolution_grids(comparison: Comparison, dataset: str) -> list[list[Results]]:
    """The results that differ in alpha, beta and seed only, where there is more than one pair of alpha and beta."""
    grids = defaultdict(list)
    for result in comparison.all_results():
        if result.dataset.name == dataset and set(EVOLUTION) <= result.settings.keys():
            others = {name: value for name, value in result.settings.items() if name not in EVOLUTION}
            grids[json.dumps([result.arch, others], sort_keys=True)].append(result)
    return [grid for _, grid in sorted(grids.items()) if len({place(result) for result in grid}) > 1]


def place(result: Results) -> tuple[float, float]:
    return tuple(float(result.settings[name]) for name in EVOLUTION)


def evolution_figure(comparison: Comparison, grid: list[Results]) -> Figure:
    """A map over alpha and beta with the scores in its cells, or a line where only one of the two varies."""
    scores = defaultdict(list)
    for result in grid:
        scores[place(result)].append(result.scores[comparison.score].score)
    spreads = {where: Spread.of(values) for where, values in scores.items()}
    alphas, betas = (sorted({where[axis] for where in spreads}) for axis in (0, 1))
    if len(alphas) > 1 and len(betas) > 1:
        return evolution_map(spreads, alphas, betas, comparison.score)
    axis = 0 if len(alphas) > 1 else 1
    figure = Figure(figsize=(COLUMN, 2.4))
    panel = figure.subplots()
    values = sorted(spreads.items())
    panel.errorbar(
        [where[axis] for where, _ in values],
        [value.mean for _, value in values],
        [value.deviation or 0 for _, value in values],
        color="black",
        marker="o",
        capsize=2,
    )
    other = EVOLUTION[1 - axis]
    panel.set_xlabel(LABELS[EVOLUTION[axis]])
    panel.set_ylabel(f"{comparison.score} ({LABELS[other]} {values[0][0][1 - axis]:g})")
    return figure


def evolution_map(
    spreads: dict[tuple[float, float], Spread], alphas: list[float], betas: list[float], score: str
) -> Figure:
    cells = np.full((len(betas), len(alphas)), np.nan)
    for (alpha, beta), value in spreads.items():
        cells[betas.index(beta), alphas.index(alpha)] = value.mean
    figure = Figure(figsize=(COLUMN, 2.8))
    panel = figure.subplots()
    image = panel.imshow(cells, cmap="cividis", origin="lower", aspect="auto")
    middle = (np.nanmin(cells) + np.nanmax(cells)) / 2
    for (row, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            shade = "white" if value < middle else "black"
            panel.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    panel.grid(False)
    panel.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    panel.set_yticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    panel.set_xlabel("alpha")
    panel.set_ylabel("beta")
    figure.colorbar(image, label=score)
    return figure


def score_by_size(comparison: Comparison, dataset: str) -> Figure | None:
    """A point for each model, with bars over seeds."""
    models = [model for model in comparison.models if comparison.results(model, dataset)]
    if len(models) < 2:
        return None
    figure = Figure(figsize=(COLUMN + 1.2, 2.6))
    panel = figure.subplots()
    sizes = [comparison.example(model).parameters / 1e6 for model in models]
    for (model, style), size in zip(looks(models).items(), sizes, strict=True):
        value = Spread.of(comparison.scores(model, dataset).values())
        point = {"color": style["color"], "marker": style["marker"], "linestyle": "none", "markersize": 6}
        panel.errorbar(size, value.mean, value.deviation, capsize=2, label=model, **point)
    if max(sizes) > 4 * min(sizes):
        panel.set_xscale("log")
    panel.margins(x=0.3, y=0.2)
    panel.ticklabel_format(axis="x", useOffset=False) if panel.get_xscale() == "linear" else None
    panel.set_xlabel("parameters (millions)")
    panel.set_ylabel(comparison.score)
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
