"""Checks of what a checkpoint records of its training data; the values are not trusted."""

import math
from collections.abc import Sequence

from ea_fairseq.errors import UserError


def require_statistics(mean: Sequence[float], deviation: Sequence[float], channels: int) -> None:
    """Checks the means and deviations of at most so many channels.

    Raises:
        UserError: if they are invalid.
    """
    if not 1 <= len(mean) <= channels or len(deviation) != len(mean):
        raise UserError("its means and deviations are not of the same channels")
    if not all(map(math.isfinite, mean)) or not all(0 < one < math.inf for one in deviation):
        raise UserError("its means must be finite and its deviations above 0")


def require_labels(labels: Sequence[object], most: int) -> None:
    """Checks the names of at most so many classes.

    Raises:
        UserError: if there are none, one is there twice, or one is not a name.
    """
    if not (0 < len(labels) <= most and all(map(is_label, labels)) and len({*labels}) == len(labels)):
        raise UserError("its labels are not the names of classes")


def is_label(label: object) -> bool:
    """Whether this can be the name of a class."""
    return isinstance(label, str) and 0 < len(label) <= 1000 and label.isprintable()
