"""Tables of a benchmark."""

import math
from collections.abc import Iterator
from dataclasses import replace

from ea_fairseq.experiments.benchmark.cases import ENCODER_PARTS, PARTS, SERIES_PARTS, TRAINED_PARTS, UNTUNED
from ea_fairseq.experiments.benchmark.results import Benchmark, Measurement
from ea_fairseq.experiments.benchmark.samples import Spread
from ea_fairseq.experiments.tables import Table

INTERVALS = (
    "All figures are medians over rounds; intervals of ratios have a confidence of 95%, and of fewer than six rounds "
    "reach from the lowest to the highest."
)
LONG = 128  # the length from which growth is fitted
MIB = 2**20
TITLES = {
    "block": "One self-attention, forward and backward",
    "training": "Training",
    "generation": "Generation",
    "translation": "Translation of a text by trained models",
    "growth": "Growth with the length of sentences, of one self-attention",
    "tuning": "Tuning a classifier",
    "inference": "Classification",
    "series": "Training on time series",
    "memory": "Memory and operations",
}


def heading(benchmark: Benchmark) -> str:
    """What was measured with what."""
    settings = benchmark.settings
    facts = [
        *benchmark.hardware,
        f"{settings.device}, {settings.threads} thread{'s' * (settings.threads > 1)}",
        ", ".join(f"{name} {number}" for name, number in benchmark.versions.items()),
        f"commit {benchmark.commit or 'unknown'}",
        f"seed {settings.seed}, {settings.dictionary:,} tokens in the dictionary",
        f"rounds: {settings.rounds}, rejected if other processes took more than {settings.limit:.0%} of the processor",
    ]
    return "\n".join([benchmark.command, *facts, *["QUICK: a trial, not a result"] * benchmark.quick])


def tables(benchmark: Benchmark) -> Iterator[tuple[str, Table]]:
    """Titles and tables of all that was measured."""
    for part in (*PARTS, *TRAINED_PARTS, *ENCODER_PARTS, *SERIES_PARTS):
        if timed := [found for found in benchmark.of(part) if found.rounds]:
            table = time_table(timed) if part in ("block", "growth") else speed_table(timed)
            yield (
                TITLES[part],
                replace(table, notes=[*table.notes, INTERVALS, *remarks(timed, benchmark.settings.limit)]),
            )
            if part == "growth" and any(exponents(timed)):
                yield "Exponents of growth", exponent_table(timed)
    if costly := benchmark.of("block", "training", "tuning", "series"):
        yield TITLES["memory"], memory_table(costly)


def time_table(measurements: list[Measurement]) -> Table:
    """Milliseconds, and their ratio to those of the Transformer: less is better."""
    rows = []
    for found in measurements:
        rows.append([found.case.title, *[""] * 4])
        for name in found.names:
            milliseconds = times(found.seconds(name), 1000)
            ratio = inverse(found.speed(name))
            rows.append([f"  {name}", number(milliseconds.median), span(milliseconds), *ratio_cells(ratio)])
    note = "Of the whole batch of B sentences; the Transformer's time in the same round is 1."
    return Table(["", "ms", "from - to", "time", "interval"], rows, [note])


def speed_table(measurements: list[Measurement]) -> Table:
    """Words per second, and their ratio to those of the Transformer: more is better."""
    rows = []
    against_untuned = any(UNTUNED.name in found.names for found in measurements)
    for found in measurements:
        rows.append([found.case.title, *[""] * (4 + against_untuned)])
        for name in found.names:
            words = times(inverse(found.seconds(name)), found.words)
            cells = [f"  {name}", number(words.median), span(words), *ratio_cells(found.speed(name))]
            if against_untuned:
                cells.append(f"{found.speed(name, UNTUNED.name).median:.2f}" if UNTUNED.name in found.names else "")
            rows.append(cells)
    header = ["", "words/s", "from - to", "speed", "interval", *["untuned = 1"] * against_untuned]
    part = measurements[0].case.part
    side = "Words" if part in ENCODER_PARTS else "Source words" if part in TRAINED_PARTS else "Target words"
    baseline = "the Transformer's speed in the same round is 1"
    if part in ENCODER_PARTS:
        baseline = "the Transformer, fairseq's RoBERTa of the same size, has a speed of 1"
    if part in SERIES_PARTS:
        side, baseline = "Steps of series", "EA-DC-Transformer in plain PyTorch has a speed of 1"
    notes = [f"{side}, padding left out; {baseline}."]
    if against_untuned:
        notes.append(
            "Untuned is without the allocator's settings of ea-fairseq train, which all others have; all on is "
            "bf16, the criterion ea_label_smoothed_cross_entropy with --fast-dropout, and these settings."
        )
    return Table(header, rows, notes)


def remarks(measurements: list[Measurement], limit: float) -> Iterator[str]:
    """What to know of a part's samples: which were disturbed, and what is missing."""
    disturbed = sum(found.disturbed for found in measurements)
    unclean = sum(found.disturbed_that_count(limit) for found in measurements)
    counted = sum(len(found.rounds) for found in measurements)
    if unclean:
        yield (
            f"NOT ON A QUIET MACHINE: in {unclean} of the {counted} rounds that count, others took more than "
            f"{limit:.0%} of the processor."
        )
    if disturbed > unclean:
        yield f"{disturbed - unclean} more rounds were disturbed and repeated."
    yield from dict.fromkeys(
        f"Left out: {name}, for {reason}." for found in measurements for name, reason in found.left_out.items()
    )


def memory_table(measurements: list[Measurement]) -> Table:
    """Peak and saved memory in MiB, operations, and their ratio to the plain model's."""
    rows = []
    for found in measurements:
        rows.append([found.case.title + ("" if found.case.part == "block" else f" ({found.case.part})"), *[""] * 5])
        plain = found.costs[found.baseline]
        for name, cost in found.costs.items():
            maps = f"{(cost.saved - plain.saved) / cost.one_map:+.2f}" if found.case.part == "block" else ""
            ratio = f"{cost.operations / plain.operations:.3f}"
            sizes = [f"{size / MIB:,.1f}" for size in (cost.peak, cost.saved)]
            rows.append([f"  {name}", *sizes, maps, f"{cost.operations:,}", ratio])
    notes = [
        "Peak: the most memory that a process took beyond what it has with everything imported, in MiB. Saved: what "
        "autograd keeps for the backward pass, each storage once and parameters left out, in MiB, and beyond the "
        "Transformer's in maps of K x N x N single-precision numbers a sentence.",
        "Operations: those of torch in one step that are no views, forward, backward and optimizer.",
    ]
    return Table(["", "peak", "saved", "maps beyond", "operations", "ratio"], rows, notes)


def exponent(points: dict[int, float]) -> float | None:
    """The slope of a quantity over length, both logarithmic, by least squares, or None of fewer than two points."""
    if len(points) < 2:
        return None
    x, y = ([math.log(value) for value in values] for values in (points.keys(), points.values()))
    middle = [sum(values) / len(values) for values in (x, y)]
    covariance = sum((a - middle[0]) * (b - middle[1]) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - middle[0]) ** 2 for a in x)


def exponents(measurements: list[Measurement]) -> Iterator[tuple[str, str, float, float]]:
    """Size, variant, and exponents of what a sentence takes: time, and what is saved for backward."""
    for size in dict.fromkeys(found.case.size for found in measurements):
        long = [found for found in measurements if found.case.size == size and found.case.length >= LONG]
        for name in dict.fromkeys(name for found in long for name in found.names):
            time, saved = per_sentence([found for found in long if name in found.names], name)
            if (of_time := exponent(time)) is not None:
                yield size, name, of_time, exponent(saved)


def per_sentence(measurements: list[Measurement], name: str) -> tuple[dict[int, float], dict[int, float]]:
    """By length, seconds of one sentence and bytes that it keeps for the backward pass."""
    time = {found.case.length: found.seconds(name).median / found.case.sentences for found in measurements}
    return time, {found.case.length: found.costs[name].saved / found.case.sentences for found in measurements}


def exponent_table(measurements: list[Measurement]) -> Table:
    """How time and saved memory grow with the length of sentences, as a power of it."""
    powers = exponents(measurements)
    rows = [[f"{size.capitalize()}, {name}", f"{time:.2f}", f"{saved:.2f}"] for size, name, time, saved in powers]
    note = (
        f"What a sentence takes, and saves for the backward pass, grows as N to this power, fitted from N = {LONG} on."
    )
    return Table(["", "time", "saved"], rows, [note])


def inverse(spread: Spread) -> Spread:
    """The spread of 1 / x."""
    return Spread(1 / spread.median, 1 / spread.high, 1 / spread.low)


def times(spread: Spread, factor: float) -> Spread:
    """The spread of factor * x."""
    return Spread(factor * spread.median, factor * spread.low, factor * spread.high)


def ratio_cells(ratio: Spread) -> list[str]:
    """Two cells: a ratio and its interval, empty for the baseline, whose ratio is always 1."""
    return [f"{ratio.median:.2f}", "" if ratio.low == ratio.high == 1 else f"{ratio.low:.2f} - {ratio.high:.2f}"]


def span(spread: Spread) -> str:
    """An interval as text."""
    return f"{number(spread.low)} - {number(spread.high)}"


def number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
