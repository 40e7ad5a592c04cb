"""Augmentations of batches of images (B, C, H, W), uint8: random crops, flips, and squares that are cut out."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

PADDING = 4  # pixels of zeros on each side, before a crop of the original size
CUT_OUT = 8  # pixels, the side of the square (DeVries and Taylor, 2017)


def crop(images: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Crops padded images.

    Args:
        rows, columns: (B,), where the crops begin, from 0 to 2 x ``PADDING``.
    """
    sides = (PADDING, PADDING)
    padded = np.pad(images, ((0, 0), (0, 0), sides, sides))
    windows = sliding_window_view(padded, images.shape[2:], axis=(2, 3))
    return windows[np.arange(len(images)), :, rows, columns]


def flip(images: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """Mirrors the images that are true in ``flipped`` (B,): left becomes right."""
    return np.where(flipped[:, None, None, None], images[..., ::-1], images)


def cut_out(images: np.ndarray, rows: np.ndarray, columns: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """Fills a square of each image, or the part of it that is inside.

    Args:
        rows, columns: (B,), the centre, which is the first pixel of the lower right quarter of the square.
        fill: (C,), the colour.
    """
    height, width = (
        abs(2 * (np.arange(size) - centres[:, None]) + 1) <= CUT_OUT
        for size, centres in zip(images.shape[2:], (rows, columns), strict=True)
    )
    inside = height[:, None, :, None] & width[:, None, None, :]
    return np.where(inside, fill[:, None, None], images)


class Augmentation:
    """Random augmentations of each of N images: a crop, perhaps a flip and, if there is a colour, a cut-out.

    Args:
        height, width: size of the images.
        fill: (C,), the colour of cut-outs; None for no cut-outs.
    """

    def __init__(self, count: int, height: int, width: int, fill: np.ndarray | None, random: np.random.Generator):
        self.fill = fill
        self.crops = random.integers(0, 2 * PADDING + 1, (2, count))
        self.flips = random.random(count) < 0.5
        self.centres = random.integers(0, [[height], [width]], (2, count))

    def __call__(self, images: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Augments the images of these indices (B,)."""
        rows, columns = self.crops[:, indices]
        images = flip(crop(images, rows, columns), self.flips[indices])
        if self.fill is None:
            return images
        rows, columns = self.centres[:, indices]
        return cut_out(images, rows, columns, self.fill)
