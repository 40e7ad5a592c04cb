"""Tokens a second and peak memory of training: plain, evolving, and evolving by plain PyTorch."""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import torch

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import SIZES, Settings, computed_by
from ea_fairseq.experiments.gpu_check.updates import AMP, AUTOCAST, BF16, FLOAT32, FP16, Precision, Training
from ea_fairseq.experiments.runs.recipe import model_flags
from ea_fairseq.kernels.self_check import first_line

WARM_UP = 5


@dataclass(frozen=True)
class Load:
    """A batch, and how many updates are timed."""

    tokens: int
    length: int
    updates: int


RECIPES, LARGE, SMALL = Load(4096, 30, 10), Load(32768, 128, 10), Load(512, 30, 3)


def check(settings: Settings) -> Iterator[Row]:
    """A row for each size and precision, by batches of the papers' recipes; and a few by larger ones."""
    if not settings.on_gpu:
        cases = [("lite", precision, SMALL) for precision in (FLOAT32, AUTOCAST)]
    else:
        cases = [(size, precision, RECIPES) for size in SIZES for precision in (FLOAT32, FP16, BF16, AMP, AUTOCAST)]
        cases += [("base", precision, LARGE) for precision in (FLOAT32, FP16, AUTOCAST)]
    for case in cases:
        yield measure(*case, settings)


def measure(size: str, precision: Precision, load: Load, settings: Settings) -> Row:
    """The row of a size and precision; models take turns, and the ratio is to fairseq's Transformer."""
    name = f"{SIZES[size]}, {load.tokens:,} tokens, {precision.name}"
    evolving = model_flags(f"ea_transformer_{size}")
    variants = {
        "Transformer": (["--arch", PLAIN[size]], "auto"),
        "EA": (evolving, "auto"),
        "EA by PyTorch": (evolving, "reference"),
    }
    trainings, peaks, problems = {}, {}, []
    for variant, (flags, backend) in variants.items():
        try:
            with computed_by(backend):
                trainings[variant], peaks[variant] = begin(flags, precision, load, settings)
        except Exception as error:
            problems.append(f"{variant} fails ({type(error).__name__}: {first_line(error)})")
    seconds = {variant: [] for variant in trainings}
    for _ in range(load.updates):
        for variant, training in trainings.items():
            with computed_by(variants[variant][1]):
                seconds[variant].append(timed_update(training, settings))
    found = {}
    for variant, training in trainings.items():
        took = median(seconds[variant])
        ratio = f" ({median(seconds['Transformer']) / took:.2f})" if "Transformer" in seconds else ""
        found[variant] = f"{training.words / took:,.0f}{ratio}"
        if settings.on_gpu:
            found[f"{variant}, GiB"] = f"{peaks[variant]:.2f}"
    return Row(name, found, "; ".join(problems))


def begin(flags: list[str], precision: Precision, load: Load, settings: Settings) -> tuple[Training, float]:
    """A training after a few updates, and the GiB of a GPU that it has taken at most, beside what was there."""
    gc.collect()
    held = torch.cuda.memory_allocated() / 2**30 if settings.on_gpu else 0.0
    training = Training(flags, settings, load.tokens, load.length, precision)
    return training, max(training.peak(training.step()) for _ in range(WARM_UP)) - held


def timed_update(training: Training, settings: Settings) -> float:
    """The seconds of one update."""
    settings.synchronize()
    start = time.perf_counter()
    training.step()
    settings.synchronize()
    return time.perf_counter() - start
