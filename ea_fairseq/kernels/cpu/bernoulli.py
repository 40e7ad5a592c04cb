"""Bernoulli numbers on a CPU, which dropout multiplies by, from 16 random bits each."""

import functools
import warnings

import torch
from torch import Tensor, library

STEPS = 2**16  # probabilities that 16 bits tell apart


@functools.cache
def draw_fast() -> library.Library:
    """Lets torch's ``bernoulli_`` of one probability draw by :func:`bernoulli_` on a CPU, for the rest of the process.

    Where torch has no generator of Intel's, it draws one number at a time. What it draws is still determined by
    torch's seed, but is not what it draws otherwise.
    """
    operators = library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        operators.impl("bernoulli_.float", bernoulli_, "CPU")
    return operators


def bernoulli_(drawn: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """Fills a tensor with ones with probability ``p``, to the next multiple of 2**-16, and zeros.

    Raises:
        RuntimeError: if ``p`` is not from 0 to 1, as torch does.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    ones = round(p * STEPS)
    if ones in (0, STEPS):
        return drawn.fill_(ones > 0)
    words = torch.empty(-(-drawn.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    numbers = words.view(torch.int16)[: drawn.numel()].view(drawn.shape)
    return torch.lt(numbers, ones - STEPS // 2, out=drawn)
