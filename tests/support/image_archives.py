"""Images for tests: drawn ones, their archives, and a tiny model for fairseq's commands."""

import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import ROOT
from small_archives import pack

CIFAR10 = Path(os.environ.get("EA_FAIRSEQ_IMAGES") or ROOT.parent / "shared/data/images")
needs_cifar10 = pytest.mark.skipif(
    not (CIFAR10 / "train.tar.gz").is_file(), reason="set EA_FAIRSEQ_IMAGES to a folder that has train.tar.gz"
)
LABELS = ("cat", "dog", "owl")
TINY_MODEL = """
from fairseq.models import register_model, register_model_architecture
from torch import nn

from ea_fairseq.models.image import ImageModel


class Encoder(nn.Sequential):
    width = 8


@register_model("tiny_image")
class TinyImageModel(ImageModel):
    @classmethod
    def build_model(cls, args, task):
        found = cls.description_of(args, task)
        pixels = found.channels * found.height * found.width
        return cls(args, Encoder(nn.Flatten(), nn.Linear(pixels, 8), nn.ReLU()), found)


register_model_architecture("tiny_image", "tiny_image")(lambda args: None)
"""


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


def write_tiny_model(folder: Path) -> Path:
    """A --user-dir with the architecture ``tiny_image``."""
    folder.mkdir()
    (folder / "__init__.py").write_text(TINY_MODEL)
    return folder
