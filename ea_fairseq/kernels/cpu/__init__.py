"""Kernels for CPUs, in C."""

import torch

DTYPES = (torch.float32, torch.bfloat16)  # supported types of maps
