"""Runs one part of the check in a process of its own, and prints its rows as lines of JSON."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

import ea_fairseq.plugin  # noqa: F401  its models and criteria
from ea_fairseq import installation
from ea_fairseq.experiments.environment import commit, of_gpus, versions
from ea_fairseq.experiments.gpu_check import kernels, trainings, translation, updates
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import Settings
from ea_fairseq.kernels import check_records


def machine(settings: Settings) -> Iterator[Row]:
    """Yields versions and devices, for a bug report."""
    found = {name.capitalize() if name == "python" else name: version for name, version in versions().items()}
    found |= {"torch": torch.__version__, "triton": installation.installed_version("triton") or "not installed"}
    found |= {"system": installation.system(), "processor": installation.processor(), "commit": commit() or "unknown"}
    if settings.on_gpu:
        properties = torch.cuda.get_device_properties(settings.device)
        found |= {
            "GPU": f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB",
            "compute capability": f"{properties.major}.{properties.minor}",
            "GPUs": str(torch.cuda.device_count()),
            "CUDA": str(torch.version.cuda),
            "driver": next(iter(of_gpus("driver_version")), "unknown"),
        }
    for name, fact in found.items():
        yield Row(name, {"": fact})


def self_checks(settings: Settings) -> Iterator[Row]:
    """Yields the results of the package's own kernel checks on this machine, in this run and before."""
    found, wrong = check_records.report()
    yield Row("found", {"": found}, "; ".join(wrong))


CHECKS = {
    "facts": machine,
    "kernels": kernels.check,
    "losses": trainings.kernels_beside_pytorch,
    "speed": updates.speed,
    "translation": translation.check,
    "mechanisms": updates.mechanisms,
    "processes": trainings.two_processes,
    "self_checks": self_checks,
}


def main() -> None:
    """Prints the rows of one part; everything else that is printed, mostly by fairseq, goes to stderr."""
    rows = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    part, device, text, data = sys.argv[1:]
    for row in CHECKS[part](Settings(torch.device(device), Path(text), Path(data))):
        print(row.to_line(), file=rows, flush=True)


if __name__ == "__main__":
    main()
