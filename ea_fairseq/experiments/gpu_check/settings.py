"""Settings and helpers that all parts of the check share."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.kernels import dispatch

SIZES = {"lite": "Lite", "base": "Base"}
SEED = 1
PROCESSES = 12  # maximum at once


@dataclass(frozen=True)
class Settings:
    """The device and the data of the check.

    Args:
        device: ``cuda`` or ``cpu``; a CPU is slower, so it has fewer cases.
        text, data: folders of the embedded corpus, raw and binarised.
    """

    device: torch.device
    text: Path
    data: Path

    @property
    def on_gpu(self) -> bool:
        """Whether there is a GPU to check."""
        return self.device.type == "cuda"

    @property
    def place(self) -> list[str]:
        """Flags of fairseq-train: one process on this device, and a folder apart for what a crashing training saves."""
        crashed = str(self.text.with_name("crashed"))
        return ["--distributed-world-size", "1", "--save-dir", crashed, *([] if self.on_gpu else ["--cpu"])]

    def synchronize(self) -> None:
        """Waits until the GPU has finished its work."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)


@contextmanager
def computed_by(backend: str) -> Iterator[None]:
    """Sets EA_BACKEND to this value within the context."""
    before = dispatch.backend
    dispatch.backend = backend
    try:
        yield
    finally:
        dispatch.backend = before


def exact_products() -> None:
    """Disables TF32 in PyTorch's products and convolutions, so that kernels can be compared with them."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def largest_difference(some: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference between two sequences, element by element; NaN if an element is NaN."""
    return (torch.tensor(some, dtype=torch.float64) - torch.tensor(others, dtype=torch.float64)).abs().max().item()


def in_processes(function: Callable[..., Row], cases: Sequence[tuple[Any, ...]]) -> Iterator[Row]:
    """Yields, in order, what a function returns for the arguments of each case; runs in single-threaded processes.

    Raises:
        BrokenProcessPool: if one of the processes crashes.
    """
    workers = min(PROCESSES, len(cases), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        futures = [pool.submit(function, *case) for case in cases]
        for future in futures:
            yield future.result()
