"""Dropout on a CPU in one pass that stores no mask: what is left out follows from a seed and an element's index."""

import functools
from typing import Any

import torch
from torch import Tensor, library

from ea_fairseq.kernels.cpu.call import addresses, run
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.kernels.dispatch import is_native


@functools.cache
def replace_dropout() -> library.Library:
    """Replaces torch's dropout by :func:`dropout` on CPUs, for the rest of the process.

    Samples still depend only on torch's seed, but differ from those that torch would draw.
    """
    operators = library.Library("aten", "IMPL")
    operators.impl("dropout", dropout, "AutogradCPU")
    return operators


def dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """Sets elements to zero with probability ``p``, to the next multiple of 2**-32, and divides the others by 1 - p.

    What no kernel supports, torch computes.

    Raises:
        RuntimeError: if ``p`` is not between 0 and 1, as in torch.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0 or x.numel() == 0:
        return x
    if p == 1 or torch.compiler.is_compiling() or not is_native(x, exact=False):
        return torch.native_dropout(x, p, True)[0]
    return Dropout.apply(x, p, int(torch.empty((), dtype=torch.int64).random_()))


class Dropout(torch.autograd.Function):
    """Dropout by a seed; its backward pass is itself, applied to gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.settings = p, seed
        x = x.contiguous()
        y = torch.empty_like(x)
        fields = {"x": x, "y": y, "p": p, "seed": seed, "elements": x.numel(), "bf16": x.dtype == torch.bfloat16}
        run("dropout", FUNCTIONS["dropout"](**addresses(fields)))
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, None, None]:
        return Dropout.apply(d_y, *ctx.settings), None, None
