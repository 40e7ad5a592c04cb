"""Two processes train as one that adds up the gradients of two batches."""

import json
import subprocess
import sys
from collections.abc import Iterator

import torch

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import SEED, Settings, largest_difference
from ea_fairseq.experiments.runs.recipe import model_flags

UPDATES = 10
ALLOWED = 2e-3  # of bits a token; the log has three decimals
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")


def check(settings: Settings) -> Iterator[Row]:
    """One row; by NCCL on two GPUs, by gloo on a CPU."""
    if settings.on_gpu and torch.cuda.device_count() < 2:
        yield Row("not tried: there is one GPU")
        return
    backend = "NCCL" if settings.on_gpu else "gloo"
    two = [] if settings.on_gpu else ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    one, problem = losses([], ["--update-freq", "2"], settings)
    if not problem:
        rendezvous = [*TORCHRUN, "--rdzv-endpoint", "localhost:0"]
        both, problem = losses(rendezvous, [*two, "--distributed-world-size", "2"], settings)
    if problem:
        yield Row(backend, {}, problem)
        return
    difference = largest_difference(one, both)
    found = {"one process": f"{one[-1]:.3f}", "two": f"{both[-1]:.3f}", "largest difference": f"{difference:.3f}"}
    yield Row(
        backend, found, "" if difference <= ALLOWED else f"losses differ by {difference:.3f}, {ALLOWED} is allowed"
    )


def losses(launcher: list[str], flags: list[str], settings: Settings) -> tuple[list[float], str]:
    """The loss of each update of ``fairseq-train``, and what is wrong."""
    command = [sys.executable, *launcher, "-m", "ea_fairseq.experiments.gpu_check.train", str(settings.data)]
    command += [*model_flags("ea_transformer_lite"), "--dropout", "0"]
    command += ["--share-all-embeddings", "--optimizer", "adam", "--lr", "1e-3", "--max-tokens", "512"]
    command += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--seed", str(SEED)]
    command += ["--max-update", str(UPDATES), "--no-save", "--disable-validation", "--num-workers", "0"]
    command += ["--log-format", "json", "--log-interval", "1", *settings.place, *flags]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["nothing said"])[-1]
        return [], f"fairseq-train ended with {result.returncode} ({last[:200]})"
    lines = [line for line in (result.stdout + result.stderr).splitlines() if "train_inner" in line and "{" in line]
    found = [float(json.loads(line[line.index("{") :])["loss"]) for line in lines]
    return found, "" if len(found) == UPDATES else f"{len(found)} updates instead of {UPDATES}"
