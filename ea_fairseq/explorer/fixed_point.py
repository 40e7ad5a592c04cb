"""Maps in fixed point: as exact as they are displayed, and small enough for a page."""

import base64
import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

LARGEST, HIDDEN = 2**15 - 1, -(2**15)  # of 16 bits; HIDDEN marks entries that a query must not see
MOST_DIGITS = 4  # after the decimal point


@dataclass(frozen=True)
class FixedPoint:
    """The maps of an attention's heads, followed by their mean.

    Args:
        numbers: (K + 1, T, S), int16: values times 10^digits, or HIDDEN.
        digits: after the decimal point; negative for very large values.
    """

    numbers: np.ndarray
    digits: int

    @classmethod
    def of(cls, maps: Tensor, masked: Tensor) -> "FixedPoint":
        """Rounds maps (K, T, S) and their mean; values that are ``masked`` or not finite are hidden."""
        values = maps.double().numpy()
        values = np.concatenate([values, values.mean(axis=0, keepdims=True)])
        hidden = np.concatenate([masked.numpy(), masked.numpy()[:1]]) | ~np.isfinite(values)
        largest = np.abs(values, where=~hidden, out=np.zeros_like(values)).max()
        digits = MOST_DIGITS if largest == 0 else min(MOST_DIGITS, math.floor(math.log10(LARGEST / largest)))
        numbers = np.full(values.shape, HIDDEN, dtype=np.int16)
        numbers[~hidden] = np.rint(values[~hidden] * 10.0**digits)
        return cls(numbers, digits)

    @property
    def text(self) -> str:
        """The numbers in base64, little-endian."""
        return base64.b64encode(self.numbers.astype("<i2").tobytes()).decode("ascii")

    def shown(self, head: int, query: int, key: int) -> str:
        """A value as the page shows it; empty if it is hidden."""
        number = int(self.numbers[head, query, key])
        return "" if number == HIDDEN else f"{number / 10**self.digits:.{max(self.digits, 0)}f}"
