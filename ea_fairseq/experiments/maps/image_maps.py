"""The attention maps of trained models for an image."""

from pathlib import Path

import numpy as np

from ea_fairseq import EAImage
from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.hub.files import recorded_data
from ea_fairseq.images.folder import ImageFolder


def write_image_maps(models: dict[str, Path], image: str, subset: str, data: Path | None, page: Path) -> list[Path]:
    """Writes the page of an image, prints what the models predict, and returns the file.

    Args:
        models: one checkpoint or two, by their names on the page.
        image: a JPEG or PNG file, or the number of an image of the subset, from 1.
        data: folder of the subset; by default the one that the first model was trained on.

    Raises:
        UserError: if there is no such image, or a model or the data cannot be used.
    """
    read: str | np.ndarray = image
    title, truth = f"image {Path(image).name}", ""
    if image.isdecimal():
        first = next(iter(models.values()))
        images = ImageFolder(data or recorded_data(first, Checkpoint.read(first).state)).read(subset)
        if not 1 <= int(image) <= len(images):
            raise UserError(f"--image: {images.path} has {len(images):,} images, and there is no number {image}.")
        read, title = images.images[int(image) - 1], f"image {image} of {Path(images.path).name}"
        truth = f"True class: {images.labels[images.targets[int(image) - 1]]}. "
    maps = {name: EAImage.from_pretrained(path.parent, path.name).attention(read) for name, path in models.items()}
    print(printable(f"{title}:"))
    for name, found in maps.items():
        found.note = truth + found.note
        print(printable(f"  {name}: {found.note}"))
    (name, shown), *others = maps.items()
    page.parent.mkdir(parents=True, exist_ok=True)
    return [shown.to_html(page, f"Attention of {title}", name, **dict(others))]
