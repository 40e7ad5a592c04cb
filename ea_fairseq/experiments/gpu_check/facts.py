"""Versions and devices, for a bug report."""

import subprocess
from collections.abc import Iterator

import torch

from ea_fairseq import installation
from ea_fairseq.experiments.environment import commit, versions
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import Settings

DRIVER = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]


def check(settings: Settings) -> Iterator[Row]:
    """A row for each fact."""
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
            "driver": driver(),
        }
    for name, fact in found.items():
        yield Row(name, {"": fact})


def driver() -> str:
    """The version of NVIDIA's driver."""
    try:
        return subprocess.run(DRIVER, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"
