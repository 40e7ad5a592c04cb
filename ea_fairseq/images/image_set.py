"""The images of a split, and scikit-learn's digits as such."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

DIGITS_SEED = 1  # of the split into training and test set


@dataclass(frozen=True)
class ImageSet:
    """N images of one size, and their classes.

    Args:
        path: of the file, for messages.
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


class Digits:
    """scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a fifth, drawn with a fixed seed, is the test set."""

    def find(self, split: str) -> str | None:
        """Returns the name of a split; None for ``valid``, which is not there."""
        return f"{split} of scikit-learn's digits" if split in ("train", "test") else None

    def read(self, split: str) -> ImageSet:
        """Returns the training or the test set."""
        from sklearn.datasets import load_digits  # takes a second
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        parts = train_test_split(
            range(len(digits.target)), test_size=0.2, random_state=DIGITS_SEED, stratify=digits.target
        )
        chosen = np.sort(parts[split == "test"])
        images = np.round(digits.images[chosen, :, :, None] * (255 / 16)).astype(np.uint8)
        return ImageSet(str(self.find(split)), images, tuple(map(str, range(10))), digits.target[chosen])
