"""Initialization of the weights of terms."""

import torch
from torch import nn


def weights_by_head(heads: int, inputs: int, outputs: int) -> nn.Parameter:
    """Returns a matrix for each head, (K, inputs, outputs), each initialized by ``nn.init.xavier_uniform_``."""
    bound = (6 / (inputs + outputs)) ** 0.5
    return nn.Parameter(torch.empty(heads, inputs, outputs).uniform_(-bound, bound))
