"""Kernels for GPUs, in Triton."""

from importlib.metadata import PackageNotFoundError, version

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # of the maps that they take


def is_available() -> bool:
    """Whether there is a Triton that compiles the kernels: 3.5 or later, that of torch 2.9."""
    try:
        major, minor = version("triton").split(".")[:2]
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= (3, 5)


AVAILABLE = is_available()
