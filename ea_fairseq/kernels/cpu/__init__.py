"""Kernels for CPUs, in C."""

import torch

DTYPES = (torch.float32, torch.bfloat16)  # of the maps that they take
