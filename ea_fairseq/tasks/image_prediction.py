"""The task ``image_prediction``: classes of images, for the criterion ``sentence_prediction``."""

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task
from omegaconf import MISSING
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.images.archive import ImageSet
from ea_fairseq.images.dataset import AUGMENTATIONS, ImageDataset
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.images.folder import ImageFolder
from ea_fairseq.tasks.folder import FolderConfig, FolderTask, require_known_labels
from ea_fairseq.tasks.prediction import HEAD, PredictionTask

BEST = 5  # classes that count for top-5 accuracy


@dataclass
class ImagePredictionConfig(FolderConfig):
    """The flags of the task."""

    data: str = field(
        default=MISSING,
        metadata={"help": "folder with train.tar, test.tar and perhaps valid.tar, or .tar.gz"},
    )
    valid_ratio: float = field(
        default=0.1, metadata={"help": "share of the training set to validate on if there is no valid.tar"}
    )
    augment_images: ChoiceEnum(AUGMENTATIONS) = field(  # type: ignore[valid-type]
        default="crop-flip",
        metadata={
            "help": "augmentation of training images: none, crop-flip (crops after 4 pixels of padding and horizontal "
            "flips), or crop-flip-cutout (also cuts out squares of 8 x 8 pixels)"
        },
    )
    image_cache: Optional[str] = field(  # noqa: UP045  fairseq reads no other way of writing it
        default=None, metadata={"help": "folder for decoded images, from which later trainings start sooner"}
    )


@register_task("image_prediction", dataclass=ImagePredictionConfig)
class ImagePredictionTask(PredictionTask[ImageDescription], FolderTask[ImageDescription]):
    """Predicts the classes of images."""

    describes, state_name, noun = ImageDescription, "images", "images"

    def __init__(self, cfg: ImagePredictionConfig, **kwargs: Any):
        super().__init__(cfg, ImageFolder(cfg.data, cfg.image_cache))

    def measure(self) -> ImageDescription:
        """Describes the training set without the validation split."""
        train = self.folder.read("train")
        return ImageDescription.of(train.images[self.indices("train")], train.labels)

    def require_fitting(self, file: ImageSet) -> None:
        """Checks that images have the size, channels and classes that the model supports.

        Raises:
            UserError: naming the file, if they do not.
        """
        description = self.description
        size, known = file.images.shape[1:], (description.height, description.width, description.channels)
        if size != known:
            shapes = ["{} x {} pixels and {} channels".format(*shape) for shape in (size, known)]
            raise UserError(f"{file.path} has images of {shapes[0]}, but the training data has {shapes[1]}")
        require_known_labels(file, description.labels)

    def build_dataset(self, file: ImageSet, indices: np.ndarray, training: bool) -> ImageDataset:
        """Builds a data set of images, with their classes numbered as in the training set."""
        numbers = np.array([self.description.labels.index(label) for label in file.labels])
        targets, augment = numbers[file.targets[indices]], str(self.cfg.augment_images) if training else "none"
        return ImageDataset(file.images, indices, targets, self.description, training, augment, self.cfg.seed)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Builds the model and its classification head.

        Raises:
            UserError: if ``--arch`` is no model of images.
        """
        from ea_fairseq.models.image import ImageModel

        model = super().build_model(cfg, from_checkpoint)
        if not isinstance(model, ImageModel):
            raise UserError(f"--arch {cfg.arch} is no model of images: use one such as vit or resnet_20")
        model.register_classification_head(HEAD, self.description.outputs)
        return model

    def valid_step(self, sample: dict, model: Any, criterion: FairseqCriterion) -> tuple[Tensor, int, dict]:
        """Also counts the images whose class is one of the five most probable."""
        found: list[Tensor] = []
        head = model.classification_heads[HEAD]
        with head.register_forward_hook(lambda module, inputs, logits: found.append(logits)):
            loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        if found and self.description.outputs > BEST:
            logging_output["top5"] = best_classes(found[-1]).eq(sample["target"].view(-1, 1)).sum()
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Logs fairseq's metrics and, in a validation with more than five classes, ``top5_accuracy`` in percent."""
        super().reduce_metrics(logging_outputs, criterion)
        if any("top5" in log for log in logging_outputs):
            images = sum(log["nsentences"] for log in logging_outputs)
            right = sum(log["top5"] for log in logging_outputs)
            metrics.log_scalar("top5_accuracy", 100.0 * right / images, images, round=1)

    def max_positions(self) -> int:
        """Returns 1, the size of an image."""
        return 1


def best_classes(logits: Tensor) -> Tensor:
    """Returns the numbers (B, 5) of the five best classes of logits (B, N), best first; (B, 1) if N is at most five."""
    return logits.topk(BEST if logits.size(1) > BEST else 1, dim=1).indices
