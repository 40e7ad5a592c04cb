"""What a checkpoint records of the images that its model was trained on, so that predictions need no data."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.plain.descriptions import require_labels, require_statistics

MAX_SIDE, MAX_CHANNELS, MAX_LABELS = 4096, 3, 10_000
CHUNK = 1000  # images to measure at a time


@dataclass(frozen=True)
class ImageDescription:
    """A data set's sizes, channels and classes.

    Args:
        height, width: of each image, in pixels.
        mean, deviation: of each of the C channels in the training set, of values from 0 to 1; deviations are above 0.
        labels: names of classes.
    """

    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, images: np.ndarray, labels: tuple[str, ...]) -> Self:
        """Measures the images (N, H, W, C), uint8, of a training set; a constant channel gets the deviation 1."""
        _, height, width, channels = images.shape
        total = squares = np.zeros(channels)  # of whole numbers below 2^53, which are exact
        for first in range(0, len(images), CHUNK):
            values = images[first : first + CHUNK].reshape(-1, channels).astype(np.float64)
            total, squares = total + values.sum(axis=0), squares + np.einsum("nc,nc->c", values, values)
        count = len(images) * height * width
        mean = [one / count / 255 for one in total]
        scaled = [count * int(two) - int(one) ** 2 for one, two in zip(total, squares, strict=True)]
        deviation = [math.sqrt(one) / count / 255 if one else 1.0 for one in scaled]
        return cls(height, width, tuple(map(float, mean)), tuple(deviation), labels)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Reads the plain values of a checkpoint, which are not trusted.

        Raises:
            UserError: naming the value that cannot be right.
        """
        try:
            mean, deviation = (tuple(map(float, state[name])) for name in ("mean", "deviation"))
            found = cls(state["height"], state["width"], mean, deviation, tuple(state["labels"]))
        except (KeyError, TypeError, ValueError):
            raise UserError("its description of the images is invalid") from None
        for side in (found.height, found.width):
            if type(side) is not int or not 1 <= side <= MAX_SIDE:
                raise UserError(f"its images must have from 1 to {MAX_SIDE:,} pixels a side")
        require_statistics(mean, deviation, MAX_CHANNELS)
        require_labels(found.labels, MAX_LABELS)
        return found

    @property
    def channels(self) -> int:
        """C of each image."""
        return len(self.mean)

    @property
    def outputs(self) -> int:
        """Number of outputs of a model, one for each class."""
        return len(self.labels)

    def prepare(self, images: np.ndarray) -> np.ndarray:
        """Converts images (B, C, H, W), uint8, to a model's input: float32, minus mean, divided by deviation."""
        mean, deviation = (
            np.array(numbers, dtype=np.float32)[:, None, None] * 255 for numbers in (self.mean, self.deviation)
        )
        return (images - mean) / deviation
