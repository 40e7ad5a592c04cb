"""Tokens a second and peak memory of training: plain, evolving, and evolving by plain PyTorch."""

import gc
import time
from collections.abc import Iterator
from statistics import median

import torch

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.kernels.self_check import first_line
from experiments.gpu_check.rows import Row
from experiments.gpu_check.settings import SIZES, Settings, computed_by
from experiments.gpu_check.updates import AMP, AUTOCAST, BF16, FLOAT32, FP16, Precision, Training
from experiments.runs.recipe import model_flags

WARM_UP = 5
LENGTH = 30


def check(settings: Settings) -> Iterator[Row]:
    """A row for each size and precision."""
    for size in SIZES if settings.on_gpu else ("lite",):
        for precision in (FLOAT32, FP16, BF16, AMP, AUTOCAST) if settings.on_gpu else (FLOAT32, AUTOCAST):
            yield measure(size, precision, settings)


def measure(size: str, precision: Precision, settings: Settings) -> Row:
    """The row of a size and precision; the ratio is to fairseq's Transformer."""
    name, found, problems = f"{SIZES[size]}, {precision.name}", {}, []
    variants = {
        "Transformer": (["--arch", PLAIN[size]], "auto"),
        "EA": (model_flags(f"ea_transformer_{size}"), "auto"),
        "EA by PyTorch": (model_flags(f"ea_transformer_{size}"), "reference"),
    }
    speeds = {}
    for variant, (flags, backend) in variants.items():
        try:
            with computed_by(backend):
                speeds[variant], peak = speed(flags, precision, settings)
        except Exception as error:
            problems.append(f"{variant} fails ({type(error).__name__}: {first_line(error)})")
            continue
        ratio = f" ({speeds[variant] / speeds['Transformer']:.2f})" if "Transformer" in speeds else ""
        found[variant] = f"{speeds[variant]:,.0f}{ratio}"
        if peak:
            found[f"{variant}, GiB"] = f"{peak:.2f}"
    return Row(name, found, "; ".join(problems))


def speed(flags: list[str], precision: Precision, settings: Settings) -> tuple[float, float]:
    """Target tokens a second, the median of several updates, and the GiB of a GPU that one takes at most."""
    gc.collect()
    if settings.on_gpu:
        torch.cuda.empty_cache()
    training = Training(flags, settings, 4096 if settings.on_gpu else 512, LENGTH, precision)
    seconds, peaks = [], []
    for number in range(WARM_UP + (20 if settings.on_gpu else 3)):
        settings.synchronize()
        begin = time.perf_counter()
        peaks.append(training.peak(training.step()))
        settings.synchronize()
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - begin)
    return training.words / median(seconds), max(peaks)
