"""Figures of a benchmark."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from ea_fairseq.experiments.benchmark.results import Benchmark, Measurement
from ea_fairseq.experiments.benchmark.samples import Spread
from ea_fairseq.experiments.benchmark.tables import LONG, exponents, inverse, per_sentence
from ea_fairseq.experiments.figures import PAGE, literal, looks

UNITS = {
    "training": "Target words per second in training",
    "generation": "Target words per second of beam search",
    "translation": "Source words per second of translating a text",
    "tuning": "Words per second in tuning a classifier",
    "inference": "Words per second of classification",
    "series": "Steps per second in training on time series",
}
INTERVALS = "Bars are 95% intervals (of fewer than six rounds, from the lowest to the highest)."


def figures(benchmark: Benchmark) -> Iterator[tuple[str, str, Figure]]:
    """Name, caption and figure of all that there is to draw."""
    if blocks := timed(benchmark, "block"):
        caption = f"Time of one self-attention, forward and backward, as a part of the Transformer's. {INTERVALS}"
        yield "block", caption, block_figure(blocks)
    for part, unit in UNITS.items():
        if found := timed(benchmark, part):
            yield part, f"{unit}, {found[0].baseline} = 1. {INTERVALS}", bars(found)
    if grown := timed(benchmark, "growth"):
        caption = (
            "One self-attention, forward and backward: the time of a sentence and what it keeps for the backward pass. "
            f"Numbers in the legend are exponents from N = {LONG} on; dotted: N and N squared."
        )
        yield "growth", caption, growth_figure(grown)


def timed(benchmark: Benchmark, part: str) -> list[Measurement]:
    """The measurements of a part that were timed, not only counted."""
    return [found for found in benchmark.of(part) if found.rounds]


def by_size(measurements: list[Measurement]) -> dict[str, list[Measurement]]:
    """Measurements by the size of their model."""
    sizes = dict.fromkeys(found.case.size for found in measurements)
    return {size: [found for found in measurements if found.case.size == size] for size in sizes}


def names_of(measurements: list[Measurement]) -> list[str]:
    """The names of the variants in measurements, each once, in their order."""
    return list(dict.fromkeys(name for found in measurements for name in found.names))


def middles_and_ends(spreads: list[Spread]) -> tuple[list[float], list[list[float]]]:
    """Medians, and how far their intervals reach below and above them."""
    middles = [spread.median for spread in spreads]
    return middles, [
        [spread.median - spread.low for spread in spreads],
        [spread.high - spread.median for spread in spreads],
    ]


def block_figure(measurements: list[Measurement]) -> Figure:
    """A panel for each size: time over length, a line for each variant."""
    sizes = by_size(measurements)
    figure = Figure(figsize=(PAGE, 2.9))
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    names = [name for name in names_of(measurements) if name != measurements[0].baseline]
    for panel, (size, found) in zip(panels, sizes.items(), strict=True):
        panel.axhline(1, color="#777777", linewidth=0.8)
        for name, style in looks(names).items():
            measured = [(one.case.length, inverse(one.speed(name))) for one in found if name in one.names]
            middles, ends = middles_and_ends([ratio for _, ratio in measured])
            panel.errorbar([length for length, _ in measured], middles, ends, label=literal(name), capsize=2, **style)
        panel.set_title(size.capitalize())
        panel.set_xlabel("length N")
        panel.set_xticks([one.case.length for one in found])
    panels[0].set_ylabel("time / Transformer")
    panels[0].set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names))
    return figure


def bars(measurements: list[Measurement]) -> Figure:
    """A panel for each case: the speed of each variant."""
    figure = Figure(figsize=(PAGE, 0.7 + 0.24 * len(names_of(measurements)) * -(-len(measurements) // 2)))
    columns = min(2, len(measurements))
    panels = figure.subplots(-(-len(measurements) // columns), columns, sharex=True, squeeze=False)
    for panel in panels.flat[len(measurements) :]:
        panel.set_axis_off()
    for panel, found in zip(panels.flat, measurements, strict=False):
        speeds = [found.speed(name) for name in found.names]
        middles, ends = middles_and_ends(speeds)
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
    """Time on the left and memory on the right, a row for each size."""
    sizes = by_size(measurements)
    figure = Figure(figsize=(PAGE, 0.4 + 2.5 * len(sizes)))
    panels = figure.subplots(len(sizes), 2, sharex=True, squeeze=False)
    fitted = {(size, name): powers for size, name, *powers in exponents(measurements)}
    for row, (size, found) in zip(panels, sizes.items(), strict=True):
        for name, style in looks(names_of(found)).items():
            quantities = per_sentence([one for one in found if name in one.names], name)
            for column, (panel, points, unit) in enumerate(zip(row, quantities, (1e-3, 2**20), strict=True)):
                label = f"{name}: {fitted[size, name][column]:.2f}" if (size, name) in fitted else name
                panel.plot(list(points), [value / unit for value in points.values()], label=literal(label), **style)
        for panel, label in zip(row, ("ms a sentence", "MiB saved a sentence"), strict=True):
            dress(panel, [one.case.length for one in found], f"{size.capitalize()}: {label}")
    for panel in panels[-1]:
        panel.set_xlabel("length N")
    return figure


def dress(panel: Axes, lengths: list[int], label: str) -> None:
    """Logarithmic axes, and the slopes of N and N squared through the lowest point on the left."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    first, last = min(lengths), max(lengths)
    low = min(min(line.get_ydata()) for line in panel.get_lines())
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
