"""Tables of a benchmark."""

import math
from collections.abc import Iterator
from statistics import linear_regression

from ea_fairseq.experiments.benchmark.cases import ENCODER_PARTS, PARTS, SERIES_PARTS, TRAINED_PARTS, UNTUNED
from ea_fairseq.experiments.benchmark.results import Benchmark, Measurement
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
NOTES = {  # on what is counted, and on the baseline
    **dict.fromkeys(
        ("training", "generation"),
        "Target words, padding left out; the Transformer's speed in the same round is 1.",
    ),
    "translation": "Source words, padding left out; the Transformer's speed in the same round is 1.",
    **dict.fromkeys(
        ENCODER_PARTS,
        "Words, padding left out; the Transformer, fairseq's RoBERTa of the same size, has a speed of 1.",
    ),
    "series": "Steps of series, padding left out; EA-DC-Transformer in plain PyTorch has a speed of 1.",
    **dict.fromkeys(
        ("block", "growth"), "Of the whole batch of B sentences; the Transformer's time in the same round is 1."
    ),
}
ON_UNTUNED = (
    "Untuned is without the allocator's settings of ea-fairseq train, which all others have; all on is bf16, the "
    "criterion ea_label_smoothed_cross_entropy with --fast-dropout, and these settings."
)


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
        if timed := benchmark.timed(part):
            yield TITLES[part], time_table(timed, benchmark.settings.limit)
            if part == "growth" and (powers := list(exponents(timed))):
                yield "Exponents of growth", exponent_table(powers)
    if costly := benchmark.of("block", "training", "tuning", "series"):
        yield TITLES["memory"], memory_table(costly)


def time_table(measurements: list[Measurement], limit: float) -> Table:
    """The measurements of a part: of self-attentions time in milliseconds, else words per second; and ratios."""
    part = measurements[0].case.part
    in_time = part in ("block", "growth")
    has_untuned = any(UNTUNED.name in found.names for found in measurements)
    header = ["", *(["ms", "from - to", "time"] if in_time else ["words/s", "from - to", "speed"]), "interval"]
    header += ["untuned = 1"] * has_untuned
    rows = []
    for found in measurements:
        rows.append([found.case.title, *[""] * (len(header) - 1)])
        for name in found.names:
            seconds, ratio = found.seconds(name), found.speed(name)
            measured = seconds.times(1000) if in_time else seconds.inverse().times(found.words)
            ratio = ratio.inverse() if in_time else ratio
            interval = "" if ratio.low == ratio.high == 1 else f"{ratio.low:.2f} - {ratio.high:.2f}"
            span = f"{number(measured.low)} - {number(measured.high)}"
            rows.append([f"  {name}", number(measured.median), span, f"{ratio.median:.2f}", interval])
            if has_untuned:
                compared = UNTUNED.name in found.names
                rows[-1].append(f"{found.speed(name, UNTUNED.name).median:.2f}" if compared else "")
    return Table(header, rows, [NOTES[part], *[ON_UNTUNED] * has_untuned, INTERVALS, *remarks(measurements, limit)])


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
        plain_saved, plain_operations = found.costs[found.baseline].of_update()
        for name, cost in found.costs.items():
            saved, operations = cost.of_update()
            maps = f"{(saved - plain_saved) / cost.one_map:+.2f}" if found.case.part == "block" else ""
            sizes = [f"{size / MIB:,.1f}" for size in (cost.peak, saved)]
            rows.append([f"  {name}", *sizes, maps, f"{operations:,}", f"{operations / plain_operations:.3f}"])
    notes = [
        "Peak: the most memory that a process took beyond what it has with everything imported, in MiB. Saved: what "
        "autograd keeps for the backward pass, each storage once and parameters left out, in MiB, and beyond the "
        "Transformer's in maps of K x N x N single-precision numbers a sentence.",
        "Operations: those of torch in one step that are no views, forward, backward and optimizer.",
    ]
    return Table(["", "peak", "saved", "maps beyond", "operations", "ratio"], rows, notes)


def exponents(measurements: list[Measurement]) -> Iterator[tuple[str, str, float, float]]:
    """Size, variant, and exponents of what a sentence takes: time, and what is saved for backward."""
    for size in dict.fromkeys(found.case.size for found in measurements):
        long = [found for found in measurements if found.case.size == size and found.case.length >= LONG]
        for name in dict.fromkeys(name for found in long for name in found.names):
            time, saved = per_sentence(long, name)
            if len(time) > 1:
                yield size, name, exponent(time), exponent(saved)


def exponent(points: dict[int, float]) -> float:
    """The slope of a quantity over length, both logarithmic, by least squares."""
    return linear_regression(*([math.log(value) for value in values] for values in (points, points.values()))).slope


def per_sentence(measurements: list[Measurement], name: str) -> tuple[dict[int, float], dict[int, float]]:
    """By length, seconds of one sentence and bytes that it saves for the backward pass."""
    measured = {found.case.length: found for found in measurements if name in found.names}
    time = {length: found.seconds(name).median / found.case.sentences for length, found in measured.items()}
    saved = {length: found.costs[name].of_update()[0] / found.case.sentences for length, found in measured.items()}
    return time, saved


def exponent_table(powers: list[tuple[str, str, float, float]]) -> Table:
    """How time and saved memory grow with the length of sentences, as a power of it."""
    rows = [[f"{size.capitalize()}, {name}", f"{time:.2f}", f"{saved:.2f}"] for size, name, time, saved in powers]
    note = (
        f"What a sentence takes, and saves for the backward pass, grows as N to this power, fitted from N = {LONG} on."
    )
    return Table(["", "time", "saved"], rows, [note])


def number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
