"""Kernels for GPUs, in Triton."""

from importlib.metadata import PackageNotFoundError, version

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # supported types of maps


def is_available() -> bool:
    """Whether Triton 3.5 or later, the version of torch 2.9, is installed; earlier ones cannot compile the kernels."""
    try:
        major, minor = version("triton").split(".")[:2]
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= (3, 5)


AVAILABLE = is_available()
