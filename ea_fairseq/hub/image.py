"""Trained models of images in Python: classes and attention maps of files and arrays."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from ea_fairseq.attention.maps import AttentionMaps
from ea_fairseq.attention.recording import recording
from ea_fairseq.errors import UserError
from ea_fairseq.explorer.image_page import Picture
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.hub.prediction import Prediction, sentence_of
from ea_fairseq.hub.single_model import SingleModel
from ea_fairseq.images.archive import decode
from ea_fairseq.tasks.image_prediction import ImagePredictionTask
from ea_fairseq.tasks.prediction import HEAD

Image = str | Path | np.ndarray


class EAImage(SingleModel):
    """A trained model, with the description of its training data from its checkpoint; it needs no data folder."""

    task_name, task_class, noun = "image_prediction", ImagePredictionTask, "images"

    @torch.no_grad()
    def predict(self, images: Image | Sequence[Image], batch_size: int = 64) -> Prediction | list[Prediction]:
        """Predicts the class of an image, or of several.

        Args:
            images: the path of a JPEG or PNG file, an array (H, W, C) of uint8, or a list of these.

        Raises:
            UserError: if an image cannot be read, or its size differs from the training images'.
        """
        found = [self.prediction(one) for batch in self.read_all(images, batch_size, HEAD) for one in batch]
        return found[0] if isinstance(images, Image) else found

    @torch.no_grad()
    def representations(self, images: Image | Sequence[Image], batch_size: int = 64) -> torch.Tensor:
        """Returns the input (N, D) of the last linear layer, on the CPU; see :meth:`predict`.

        Raises:
            UserError: if there are no images, or as :meth:`predict` does.
        """
        if not (found := [*self.read_all(images, batch_size, None)]):
            raise UserError("there are no images: give at least one")
        return torch.cat(found)

    @torch.no_grad()
    def attention(self, image: Image) -> AttentionByName:
        """Returns the attention maps of an image, given as for :meth:`predict`.

        Returns:
            The maps, on the CPU, by ``encoder.layers.N.self_attn`` with N from 0 in the order of computation; queries
            and keys are rows and columns of patches such as ``2,3``, from 1, and ``class``. Their note is a sentence
            with the prediction.

        Raises:
            UserError: if the model has no attention, or as :meth:`predict` does.
        """
        read = self.read(image)
        with recording(self.model) as records:
            (outputs,) = self.outputs([read])
        found, grids = {}, {}
        for layer, (name, record) in enumerate(records.items()):
            grid, place = self.model.get_submodule(name).grid, f"encoder.layers.{layer}.self_attn"
            pixels = [f"{row},{column}" for row in range(1, grid.rows + 1) for column in range(1, grid.columns + 1)]
            names = ["class"] * grid.leading + pixels
            found[place], grids[place] = AttentionMaps.from_record(record, names, names), grid
        note, picture = sentence_of(self.prediction(outputs)), Picture(read, grids)
        return AttentionByName(found, model=self.model.args.arch, note=note, unit="pixel", picture=picture)

    def read_all(self, images: Image | Sequence[Image], batch_size: int, head: str | None) -> Iterator[torch.Tensor]:
        """Reads all images, then returns an iterator over the model's outputs for batches of them."""
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, not {batch_size}")
        read = list(map(self.read, [images] if isinstance(images, Image) else images))
        starts = range(0, len(read), batch_size)
        return (self.outputs(read[start : start + batch_size], head) for start in starts)

    def outputs(self, images: list[np.ndarray], head: str | None = HEAD) -> torch.Tensor:
        """Returns the logits (B, outputs) or, without a head, the head's input (B, D), on the CPU."""
        source = self.description.prepare(np.stack(images).transpose(0, 3, 1, 2))
        device = next(self.model.parameters()).device
        return self.model(torch.from_numpy(source).to(device), classification_head_name=head)[0].double().cpu()

    def prediction(self, outputs: torch.Tensor) -> Prediction:
        """Converts an image's logits (outputs,) into a prediction."""
        return Prediction.of(outputs, self.description.labels)

    def read(self, image: Image) -> np.ndarray:
        """Returns an image (H, W, C) that the model can read; raises UserError if it cannot."""
        pixels, name = (image, "the array") if isinstance(image, np.ndarray) else (read_file(Path(image)), str(image))
        wanted = self.description.height, self.description.width, self.description.channels
        if pixels.dtype != np.uint8 or pixels.shape != wanted:
            raise UserError(
                f"{name} is {pixels.dtype} of the shape {pixels.shape}, and the model reads uint8 of {wanted}"
            )
        return pixels


def read_file(path: Path) -> np.ndarray:
    """Decodes a JPEG or PNG file as (H, W, C), uint8; raises UserError, naming the file, if that fails."""
    try:
        data, shape = decode(path.read_bytes(), None)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)
