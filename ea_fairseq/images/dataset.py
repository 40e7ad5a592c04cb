"""Images as examples; a batch is gathered and augmented as a whole."""

import numpy as np
import torch

from ea_fairseq.examples import Examples
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.images.transforms import Augmentation

AUGMENTATIONS = ("none", "crop-flip", "crop-flip-cutout")


class ImageDataset(Examples):
    """Some images of an array, with the numbers of their classes; each has the size 1.

    Args:
        images: (N, H, W, C), uint8.
        indices: of the examples in ``images``.
        targets: class of each example.
        shuffle: whether batches are drawn anew in each epoch.
        augment: one of ``AUGMENTATIONS``; what is drawn for an image depends on seed, epoch and index alone, so that a
            resumed training sees the same.
    """

    def __init__(
        self,
        images: np.ndarray,
        indices: np.ndarray,
        targets: np.ndarray,
        description: ImageDescription,
        shuffle: bool = False,
        augment: str = "none",
        seed: int = 1,
    ):
        super().__init__(np.ones(len(indices), dtype=np.int64), shuffle)
        self.images, self.indices, self.targets, self.description = images, indices, targets, description
        self.augment, self.seed = augment, seed
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Draws the augmentations of an epoch, from 1; fairseq calls this before each."""
        self.augmentation = None
        if self.augment != "none":
            size, random = (self.description.height, self.description.width), np.random.default_rng([self.seed, epoch])
            fill = np.round(255 * np.array(self.description.mean)).astype(np.uint8)
            self.augmentation = Augmentation(len(self), *size, fill if "cutout" in self.augment else None, random)

    def __getitem__(self, index: int) -> int:
        return index

    def collater(self, samples: list[int]) -> dict:
        """Returns a batch: ``net_input`` is ``source`` (B, C, H, W), float32, and ``target`` (B,) the classes."""
        if not samples:
            return {}
        chosen = np.array(samples)
        images = self.images[self.indices[chosen]].transpose(0, 3, 1, 2)
        if self.augmentation is not None:
            images = self.augmentation(images, chosen)
        return {
            "id": torch.from_numpy(chosen),
            "nsentences": len(chosen),
            "ntokens": len(chosen),
            "net_input": {"source": torch.from_numpy(np.ascontiguousarray(self.description.prepare(images)))},
            "target": torch.from_numpy(self.targets[chosen]),
        }
