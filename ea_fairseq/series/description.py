"""What a checkpoint records of the time series that its model was trained on, so that predictions need no data."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.plain.descriptions import require_labels, require_statistics
from ea_fairseq.series.ts_file import MAX_CHANNELS, MAX_LABELS, MAX_STEPS


@dataclass(frozen=True)
class SeriesDescription:
    """A data set's channels, lengths and labels.

    Args:
        mean, deviation: of each of the C channels in the training set, missing values left out; deviations are above 0.
        normalized: whether models read values minus the mean, divided by the deviation.
        longest: number of steps of the longest series.
        labels: names of classes; None if a number is predicted, or nothing.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    normalized: bool
    longest: int
    labels: tuple[str, ...] | None

    @classmethod
    def of(cls, series: list[np.ndarray], normalized: bool, longest: int, labels: tuple[str, ...] | None) -> Self:
        """Measures the series (T, C) of a training set; a channel without any value has mean 0 and deviation 1."""
        count = sum((~np.isnan(one)).sum(axis=0) for one in series)
        known = np.maximum(count, 1)
        mean = sum(np.nansum(one, axis=0, dtype=np.float64) for one in series) / known
        deviation = np.sqrt(sum(np.nansum((one - mean) ** 2, axis=0) for one in series) / known)
        deviation[deviation == 0] = 1.0
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()), normalized, longest, labels)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Reads the plain values of a checkpoint, which are not trusted.

        Raises:
            UserError: naming the value that cannot be right.
        """
        try:
            labels = None if state["labels"] is None else tuple(state["labels"])
            mean, deviation = (tuple(map(float, state[name])) for name in ("mean", "deviation"))
            found = cls(mean, deviation, state["normalized"], state["longest"], labels)
        except (KeyError, TypeError, ValueError):
            raise UserError("its description of the series is invalid") from None
        require_statistics(mean, deviation, MAX_CHANNELS)
        if type(found.normalized) is not bool:
            raise UserError("its description must say whether values are normalized, true or false")
        if type(found.longest) is not int or not 1 <= found.longest <= MAX_STEPS:
            raise UserError(f"its longest series must have from 1 to {MAX_STEPS:,} steps")
        if labels is not None:
            require_labels(labels, MAX_LABELS)
        return found

    @property
    def channels(self) -> int:
        """C of each series."""
        return len(self.mean)

    @property
    def outputs(self) -> int:
        """Number of outputs of a model: one for each class, or one in all."""
        return 1 if self.labels is None else len(self.labels)

    def prepare(self, series: np.ndarray) -> np.ndarray:
        """Converts a series (T, C) to a model's input, float32; missing values become the mean, 0 if normalized."""
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        values = np.where(np.isnan(series), mean, series)
        return ((values - mean) / deviation if self.normalized else values).astype(np.float32)
