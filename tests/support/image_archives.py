"""Images for tests: drawn ones, and their archives."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from small_archives import pack

LABELS = ("cat", "dog", "owl")


def draw_images(seed: int, count: int, side: int = 6, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, channels), dtype=np.uint8)


def encode(image: np.ndarray, form: str = "PNG", **options) -> bytes:
    """A file of an image (H, W, C)."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, form, **options)
    return file.getvalue()


def members(split: str, images: np.ndarray, labels: tuple[str, ...] = LABELS) -> dict[str, bytes]:
    """Files of PNG by their names, classes in turn."""
    names = (f"{split}/{labels[number % len(labels)]}/{number:03}.png" for number in range(len(images)))
    return dict(zip(names, map(encode, images), strict=True))


def write_images(folder: Path, sizes: Mapping[str, int], **options) -> Path:
    """A folder with an archive for each split; images of a class are alike, so that they can be learned."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(sizes.items()):
        images = draw_images(seed, size, **options)
        images[np.arange(size), 0, np.arange(size) % 3] = 255
        pack(folder / f"{split}.tar", members(split, images))
    return folder
