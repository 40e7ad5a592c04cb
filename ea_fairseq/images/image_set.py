"""The images of a split."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class ImageSet:
    """N images of one size, and their classes.

    Args:
        path: the file, for messages.
        images: (N, H, W, C), uint8.
        labels: names of classes.
        targets: index in ``labels`` of each image's class.
    """

    path: str | Path
    images: np.ndarray
    labels: tuple[str, ...]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.images)
