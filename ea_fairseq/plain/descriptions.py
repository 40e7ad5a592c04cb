"""What a checkpoint records of its training data, as plain values, which are not trusted when they are read."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ea_fairseq.errors import UserError


def plain_values(description: Any) -> dict:
    """Returns the fields of a dataclass for a checkpoint, tuples as lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(description).items()}


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
