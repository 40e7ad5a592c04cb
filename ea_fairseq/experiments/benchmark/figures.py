"""Figures of a benchmark's results."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from ea_fairseq.experiments.benchmark.results import Benchmark, Measurement
from ea_fairseq.experiments.benchmark.tables import LONG, exponents, per_sentence
from ea_fairseq.experiments.figures import PAGE, literal, looks

UNITS = {
    "block": "Speed of one self-attention, forward and backward",
    "training": "Target words per second in training",
    "generation": "Target words per second of beam search",
    "translation": "Source words per second of translating a text",
    "tuning": "Words per second in tuning a classifier",
    "inference": "Words per second of classification",
    "series": "Steps per second in training on time series",
}
INTERVALS = "Bars are 95% intervals (with fewer than six rounds, from the lowest to the highest)."


def figures(benchmark: Benchmark) -> Iterator[tuple[str, str, Figure]]:
    """Yields the name, caption and figure of each part that was measured."""
    for part, unit in UNITS.items():
        if found := benchmark.timed(part):
            yield part, f"{unit}, {found[0].baseline} = 1. {INTERVALS}", bars(found)
    if grown := benchmark.timed("growth"):
        caption = (
            "One self-attention, forward and backward: the time of a sentence and what it keeps for the backward pass. "
            f"Numbers in the legend are exponents from N = {LONG} on; dotted: N and N squared."
        )
        yield "growth", caption, growth_figure(grown)


def names_of(measurements: list[Measurement]) -> list[str]:
    """Returns the names of the variants in measurements, each once, in order."""
    return list(dict.fromkeys(name for found in measurements for name in found.names))


def bars(measurements: list[Measurement]) -> Figure:
    """Draws a panel for each case with the speed of each variant."""
    figure = Figure(figsize=(PAGE, 0.7 + 0.24 * len(names_of(measurements)) * -(-len(measurements) // 2)))
    columns = min(2, len(measurements))
    panels = figure.subplots(-(-len(measurements) // columns), columns, sharex=True, squeeze=False)
    for panel in panels.flat[len(measurements) :]:
        panel.set_axis_off()
    for panel, found in zip(panels.flat, measurements, strict=False):
        speeds = [found.speed(name) for name in found.names]
        middles = [speed.median for speed in speeds]
        ends = [[speed.median - speed.low for speed in speeds], [speed.high - speed.median for speed in speeds]]
        thin = {"linewidth": 0.8, "capsize": 2}
        colors = ["#0072B2" if variant.evolving else "#999999" for variant in found.variants]
        panel.barh(list(map(literal, found.names)), middles, xerr=ends, color=colors, height=0.65, error_kw=thin)
        for place, speed in enumerate(speeds):
            panel.annotate(f"{speed.median:.2f}", (speed.high, place), (3, 0), textcoords="offset points", va="center")
        panel.axvline(1, color="#777777", linewidth=0.8)
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_axisbelow(True)
        panel.margins(x=0.15)
        panel.set_title(found.case.title)
    for panel in panels[-1]:
        panel.set_xlabel("speed / Transformer")
    return figure


def growth_figure(measurements: list[Measurement]) -> Figure:
    """Draws a row for each size: time on the left, memory on the right."""
    sizes: dict[str, list[Measurement]] = {}
    for found in measurements:
        sizes.setdefault(found.case.size, []).append(found)
    figure = Figure(figsize=(PAGE, 0.4 + 2.5 * len(sizes)))
    panels = figure.subplots(len(sizes), 2, sharex=True, squeeze=False)
    fitted = {(size, name): powers for size, name, *powers in exponents(measurements)}
    for row, (size, of_size) in zip(panels, sizes.items(), strict=True):
        for name, style in looks(names_of(of_size)).items():
            quantities = per_sentence(of_size, name)
            for column, (panel, points, unit) in enumerate(zip(row, quantities, (1e-3, 2**20), strict=True)):
                label = f"{name}: {fitted[size, name][column]:.2f}" if (size, name) in fitted else name
                panel.plot(list(points), [value / unit for value in points.values()], label=literal(label), **style)
        for panel, label in zip(row, ("ms a sentence", "MiB saved a sentence"), strict=True):
            dress(panel, [found.case.length for found in of_size], f"{size.capitalize()}: {label}")
    for panel in panels[-1]:
        panel.set_xlabel("length N")
    return figure


def dress(panel: Axes, lengths: list[int], label: str) -> None:
    """Sets logarithmic axes, and draws the slopes of N and N squared from the lowest point on the left."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    first, last = min(lengths), max(lengths)
    low = float(panel.dataLim.ymin)
    limits = panel.get_ylim()
    for power in (1, 2):
        ends = [low, low * (last / first) ** power]
        panel.plot([first, last], ends, color="#777777", linestyle=":", linewidth=0.8, zorder=0)
    panel.set_ylim(limits)
    panel.xaxis.set_major_locator(FixedLocator(lengths))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.set_ylabel(label)
    panel.legend(loc="upper left")
