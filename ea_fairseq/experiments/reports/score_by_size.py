"""How well models translate, against how large they are."""

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ea_fairseq.experiments.figures import COLUMN, literal, looks
from ea_fairseq.experiments.reports.comparison import SAME_SIZE, Comparison, Spread

WIDE = 4  # times as large, from where on sizes are on a logarithmic axis
LABEL_GAP = 0.075  # between labels, as a part of the axis


def score_by_size(comparison: Comparison, dataset: str, models: list[str]) -> Figure | None:
    """A point for each model, with bars over seeds, and its name beside; None where all are of one size."""
    sizes = {model: comparison.example(model).parameters / 1e6 for model in models}
    if max(sizes.values()) <= (1 + SAME_SIZE) * min(sizes.values()):
        return None
    spreads = {model: Spread.of(comparison.scores(model, dataset).values()) for model in models}
    figure = Figure(figsize=(COLUMN + 1.4, 2.6))
    panel = figure.subplots()
    for model, style in looks(models).items():
        point = style | {"linestyle": "none", "markersize": 6}
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
    panel.set_ylabel(literal(comparison.score))
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
    """Ascending places in [0, 1], moved as little as is easy so that any two are ``gap`` apart."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    highest = 1.0
    for index in reversed(range(len(found))):
        found[index] = min(found[index], highest)
        highest = found[index] - gap
    return found
