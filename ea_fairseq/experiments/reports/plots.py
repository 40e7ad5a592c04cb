"""The papers' figures 5 and 9, and scores against sizes, drawn from your own results."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ea_fairseq.experiments.figures import COLUMN, literal, looks
from ea_fairseq.experiments.reports.alpha_beta import alpha_beta_figure, alpha_beta_grids, differences
from ea_fairseq.experiments.reports.comparison import SAME_SIZE, Comparison, Spread
from ea_fairseq.experiments.reports.learning_curves import CURVES, WARM_UP, label_of, learning_curves

MOST = 10  # models, at most, in a figure that names each of them
WIDE = 4  # ratio of sizes above which their axis is logarithmic
LABEL_GAP = 0.075  # between labels, as a fraction of the axis


def plots(comparison: Comparison) -> Iterator[tuple[str, str, Figure]]:
    """Yields name, caption and figure for everything that can be drawn."""
    for dataset in comparison.datasets:
        models = shown_models(comparison, dataset)
        remarks = [bands(comparison, dataset), left_out(comparison, dataset, models)]
        for name in CURVES:
            if figure := learning_curves(comparison, dataset, models, name):
                label = label_of(comparison, dataset, name)
                caption = f"{dataset}: {label} by updates and by time."
                cut = f"The vertical axis covers the values after the first {WARM_UP:.0%} of the updates."
                yield f"{dataset}-{name}", " ".join(filter(None, [caption, cut, *remarks])), figure
        score = comparison.names(dataset)[0]
        grids = alpha_beta_grids(comparison, dataset)
        for number, (grid, trained) in enumerate(zip(grids, differences(grids), strict=True), 1):
            caption = f"{dataset}: {score} by alpha and beta, for {' '.join([grid[0].arch, *trained])}."
            yield f"{dataset}-alpha-beta-{number}", caption, alpha_beta_figure(grid, score)
        translates = comparison.task(dataset) == "translation"
        if figure := score_by_size(comparison, dataset, models) if translates else None:
            caption = f"{dataset}: {score} by parameters (without embeddings and output projection)."
            bars = "Bars are standard deviations over seeds." if several_seeds(comparison, dataset) else None
            yield f"{dataset}-parameters", " ".join(filter(None, [caption, bars, remarks[1]])), figure


def shown_models(comparison: Comparison, dataset: str) -> list[str]:
    """The models on a data set; if they are too many for a figure, the baselines and the best."""
    models = [model for model in comparison.models if comparison.results(model, dataset)]
    baselines = {comparison.baseline_of(model, dataset) for model in models}
    sign = 1 if comparison.low_is_good(dataset) else -1

    def rank(model: str) -> tuple[bool, float]:
        return model not in baselines, sign * Spread.of(comparison.scores(model, dataset).values()).mean

    best = sorted(models, key=rank)[:MOST]
    return [model for model in models if model in best]


def bands(comparison: Comparison, dataset: str) -> str:
    """Explains lines and bands, for a caption."""
    if several_seeds(comparison, dataset):
        return "Lines are means over seeds at the same updates; bands reach from the lowest to the highest seed."
    return "One seed each."


def several_seeds(comparison: Comparison, dataset: str) -> bool:
    """Whether a model was trained more than once on a data set."""
    return any(len(seeds) > 1 for (_, name), seeds in comparison.by_seed.items() if name == dataset)


def left_out(comparison: Comparison, dataset: str, models: list[str]) -> str:
    """Says which models a figure shows, if not all, for its caption."""
    total = sum(name == dataset for _, name in comparison.by_seed)
    return f"Shown are the baselines and the best of {total} models." if len(models) < total else ""


def score_by_size(comparison: Comparison, dataset: str, models: list[str]) -> Figure | None:
    """A point for each model, with bars over seeds, and its name next to it; None if all have the same size."""
    sizes = {model: comparison.example(model).parameters / 1e6 for model in models}
    if max(sizes.values()) <= (1 + SAME_SIZE) * min(sizes.values()):
        return None
    spreads = {model: Spread.of(comparison.scores(model, dataset).values()) for model in models}
    figure = Figure(figsize=(COLUMN + 1.4, 2.6))
    panel = figure.subplots()
    for model, style in looks(models).items():
        point: dict[str, Any] = {**style, "linestyle": "none", "markersize": 6}
        panel.errorbar(sizes[model], spreads[model].mean, spreads[model].deviation, capsize=2, **point)
    panel.margins(x=0.15, y=0.1)
    if max(sizes.values()) > WIDE * min(sizes.values()):
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_minor_formatter(NullFormatter())
    else:
        panel.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
    panel.set_xlabel("parameters (millions)")
    panel.set_ylabel(literal(comparison.names(dataset)[0]))
    low, high = panel.get_ylim()
    upwards = sorted(models, key=lambda model: spreads[model].mean)
    heights = apart([(spreads[model].mean - low) / (high - low) for model in upwards], LABEL_GAP)
    for model, height in zip(upwards, heights, strict=True):
        panel.annotate(
            literal(model),
            (sizes[model], spreads[model].mean),
            (1.03, height),
            textcoords="axes fraction",
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "relpos": (0, 0.5), "shrinkB": 4},
        )
    return figure


def apart(places: list[float], gap: float) -> list[float]:
    """Moves ascending places in [0, 1] a little, so that any two are at least ``gap`` apart."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    highest = 1.0
    for index in reversed(range(len(found))):
        found[index] = min(found[index], highest)
        highest = found[index] - gap
    return found
