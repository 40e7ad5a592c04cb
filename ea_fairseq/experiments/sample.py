"""Examples drawn from a data set by a seed."""

import numpy as np


def drawn(examples: int, most: int | None, seed: int) -> np.ndarray:
    """Draws the numbers of examples, ascending: all, or ``most`` of them."""
    if most is None or examples <= most:
        return np.arange(examples)
    return np.sort(np.random.default_rng(seed).choice(examples, most, replace=False))
