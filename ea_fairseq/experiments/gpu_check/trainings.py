"""Compares losses of fairseq-train: kernels with plain PyTorch, and two processes with one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from fairseq_cli.train import cli_main

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import SEED, Settings, exact_products, largest_difference
from ea_fairseq.experiments.runs.recipe import model_flags

EVOLVING = "ea_transformer_lite"
SHOWN = (1, 10, 100)
ALLOWED = 0.02  # bits per token after 100 updates, in which rounding errors grow
UPDATES_OF_TWO, ALLOWED_OF_TWO = 10, 2e-3  # the log has three decimals
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")


def kernels_beside_pytorch(settings: Settings) -> Iterator[Row]:
    """Yields rows of the plain Transformer, and of evolving attention compared with plain PyTorch."""
    updates = 100 if settings.on_gpu else 20
    flags = ["--max-tokens", "2048", "--warmup-updates", "50", "--adam-betas", "(0.9, 0.98)"]
    models = (["--arch", PLAIN["lite"]], "auto"), (model_flags(EVOLVING), "auto"), (model_flags(EVOLVING), "reference")
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(losses, [*flags, *model], updates, settings, backend) for model, backend in models]
        try:
            plain, kernels, pytorch = (training.result() for training in started)
        except RuntimeError as error:
            yield Row("a training", {}, str(error))
            return
    yield Row("Transformer-Lite", shown(plain))
    difference = largest_difference(kernels, pytorch)
    problem = "" if difference <= ALLOWED else f"losses differ from PyTorch's by {difference:.3f}, {ALLOWED} is allowed"
    yield Row("EA-Transformer-Lite", shown(kernels) | {"largest difference": f"{difference:.4f}"}, problem)
    yield Row("EA-Transformer-Lite, EA_BACKEND=reference", shown(pytorch))


def shown(found: list[float]) -> dict[str, str]:
    """Formats some of the losses for a table."""
    return {f"update {number}": f"{found[number - 1]:.3f}" for number in SHOWN if number <= len(found)}


def two_processes(settings: Settings) -> Iterator[Row]:
    """Yields one row: two processes (NCCL, or gloo on a CPU) against one that accumulates gradients of two batches."""
    if settings.on_gpu and torch.cuda.device_count() < 2:
        yield Row("not tried: there is one GPU")
        return
    backend = "NCCL" if settings.on_gpu else "gloo"
    flags = [*model_flags(EVOLVING), "--dropout", "0", "--max-tokens", "512"]
    of_two = ["--distributed-world-size", "2", *([] if settings.on_gpu else ["--distributed-backend", "gloo"])]
    of_two += [] if settings.on_gpu else ["--ddp-backend", "legacy_ddp"]
    launcher = [*TORCHRUN, "--rdzv-endpoint", "localhost:0"]
    try:
        one = losses([*flags, "--update-freq", "2"], UPDATES_OF_TWO, settings)
        two = losses([*flags, *of_two], UPDATES_OF_TWO, settings, launcher=launcher)
    except RuntimeError as error:
        yield Row(backend, {}, str(error))
        return
    difference = largest_difference(one, two)
    found = {"one process": f"{one[-1]:.3f}", "two": f"{two[-1]:.3f}", "largest difference": f"{difference:.3f}"}
    is_right = difference <= ALLOWED_OF_TWO
    yield Row(backend, found, "" if is_right else f"losses differ by {difference:.3f}, {ALLOWED_OF_TWO} is allowed")


def losses(
    flags: list[str], updates: int, settings: Settings, backend: str = "auto", launcher: Sequence[str] = ()
) -> list[float]:
    """Runs ``fairseq-train`` and returns the loss of each update; raises RuntimeError if it fails."""
    command = [sys.executable, *launcher, "-m", __name__, str(settings.data)]
    command += ["--task", "translation", "-s", "de", "-t", "en", "--share-all-embeddings", "--seed", str(SEED)]
    command += ["--optimizer", "adam", "--lr", "1e-3", "--lr-scheduler", "inverse_sqrt", "--num-workers", "0"]
    command += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--max-update", str(updates)]
    command += ["--no-save", "--disable-validation", "--log-format", "json", "--log-interval", "1"]
    command += [*settings.place, *flags]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"EA_BACKEND": backend})
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise RuntimeError(f"fairseq-train ended with {result.returncode} ({last[:200]})")
    lines = [line for line in (result.stdout + result.stderr).splitlines() if "train_inner" in line and "{" in line]
    if len(lines) != updates:
        raise RuntimeError(f"{len(lines)} updates instead of {updates}")
    return [float(json.loads(line[line.index("{") :])["loss"]) for line in lines]


if __name__ == "__main__":
    exact_products()
    cli_main()
