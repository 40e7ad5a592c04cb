"""Bernoulli samples on a CPU, for dropout masks, from 16 random bits each."""

import functools
import warnings

import torch
from torch import Tensor, library

STEPS = 2**16  # number of different probabilities


@functools.cache
def draw_fast() -> library.Library:
    """Replaces torch's ``bernoulli_`` of one probability by :func:`bernoulli_` on CPUs, for the rest of the process.

    Without Intel's generator, torch draws one sample at a time. Samples still depend only on torch's seed, but differ
    from those that torch would draw.
    """
    operators = library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        operators.impl("bernoulli_.float", bernoulli_, "CPU")
    return operators


def bernoulli_(drawn: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """Fills a tensor with ones with probability ``p``, to the next multiple of 2**-16, and zeros.

    Raises:
        RuntimeError: if ``p`` is not between 0 and 1, as in torch.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    ones = round(p * STEPS)
    if ones in (0, STEPS):
        return drawn.fill_(ones > 0)
    bits = torch.empty(-(-drawn.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    samples = bits.view(torch.int16)[: drawn.numel()].view(drawn.shape)
    return torch.lt(samples, ones - STEPS // 2, out=drawn)
