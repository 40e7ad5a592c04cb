"""Tables of a benchmark's results."""

import math
from collections.abc import Iterator
from statistics import linear_regression

from ea_fairseq.experiments.benchmark.cases import ENCODER_PARTS, PARTS, SERIES_PARTS, TRAINED_PARTS, UNTUNED
from ea_fairseq.experiments.benchmark.results import Benchmark, Measurement
from ea_fairseq.experiments.benchmark.samples import disturbance
from ea_fairseq.experiments.tables import Table

INTERVALS = (
    "All figures are medians over rounds. Intervals of ratios have a confidence of 95%; with fewer than six rounds, "
    "they reach from the lowest to the highest."
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
NOTES = {  # what is counted, and the baseline
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
    "'Untuned' runs without the allocator settings of ea-fairseq train, which all others have; 'all on' has bf16, the "
    "criterion ea_label_smoothed_cross_entropy with --fast-dropout, and these settings."
)


def heading(benchmark: Benchmark) -> str:
    """Describes the command, the machine and the settings of a benchmark."""
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
    """Yields titles and tables of all measurements."""
    for part in (*PARTS, *TRAINED_PARTS, *ENCODER_PARTS, *SERIES_PARTS):
        if timed := benchmark.timed(part):
            yield TITLES[part], time_table(timed, benchmark.settings.limit)
            if part == "growth" and (powers := list(exponents(timed))):
                yield "Exponents of growth", exponent_table(powers)
    if costly := benchmark.of("block", "training", "tuning", "series"):
        yield TITLES["memory"], memory_table(costly)


def time_table(measurements: list[Measurement], limit: float) -> Table:
    """Tabulates a part: milliseconds for self-attention, otherwise words per second; and ratios to the baseline."""
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
    """Yields notes on a part's samples: how many rounds were disturbed, and which variants are missing."""
    disturbed = sum(found.disturbed for found in measurements)
    unclean = sum(disturbance(taken) > limit for found in measurements for taken in found.rounds)
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
    """Tabulates peak and saved memory in MiB, and operations with their ratio to the plain model's."""
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
        "Peak: a process's maximum memory, less its memory after all imports, in MiB. Saved: what autograd keeps for "
        "the backward pass, each storage once and without parameters, in MiB. Maps beyond: what is saved beyond the "
        "Transformer's, in maps of K x N x N single-precision numbers per sentence.",
        "Operations: torch operations of one step (forward, backward and optimizer), without views.",
    ]
    return Table(["", "peak", "saved", "maps beyond", "operations", "ratio"], rows, notes)


def exponents(measurements: list[Measurement]) -> Iterator[tuple[str, str, float, float]]:
    """Yields size, variant, and the exponents with which time and saved memory grow with length."""
    for size in dict.fromkeys(found.case.size for found in measurements):
        long = [found for found in measurements if found.case.size == size and found.case.length >= LONG]
        for name in dict.fromkeys(name for found in long for name in found.names):
            time, saved = per_sentence(long, name)
            if len(time) > 1:
                yield size, name, exponent(time), exponent(saved)


def exponent(points: dict[int, float]) -> float:
    """Returns the least-squares slope of a quantity over length, both logarithmic."""
    return linear_regression(*([math.log(value) for value in values] for values in (points, points.values()))).slope


def per_sentence(measurements: list[Measurement], name: str) -> tuple[dict[int, float], dict[int, float]]:
    """Returns, by length, the seconds per sentence and the bytes it saves for the backward pass."""
    measured = {found.case.length: found for found in measurements if name in found.names}
    time = {length: found.seconds(name).median / found.case.sentences for length, found in measured.items()}
    saved = {length: found.costs[name].of_update()[0] / found.case.sentences for length, found in measured.items()}
    return time, saved


def exponent_table(powers: list[tuple[str, str, float, float]]) -> Table:
    """Tabulates the powers of sentence length with which time and saved memory grow."""
    rows = [[f"{size.capitalize()}, {name}", f"{time:.2f}", f"{saved:.2f}"] for size, name, time, saved in powers]
    note = f"Time and saved memory of a sentence grow as N to this power, fitted from N = {LONG} on."
    return Table(["", "time", "saved"], rows, [note])


def number(value: float) -> str:
    """Formats a number with at least three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
