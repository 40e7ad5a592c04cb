"""Models of images: an encoder, and a classification head on its representation."""

from typing import Any

from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.errors import UserError
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models.state_dict import refuse_mismatch


class ImageModel(BaseFairseqModel):
    """An encoder; the task adds a classification head.

    Args:
        args: the model's options.
        encoder: maps images (B, C, H, W) to a representation (B, D); its ``width`` is D.
        description: the data set's description.
    """

    def __init__(self, args: Any, encoder: nn.Module, description: ImageDescription):
        super().__init__()
        self.args, self.encoder, self.description = args, encoder, description
        self.width: int = encoder.width  # type: ignore[assignment]
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def description_of(cls, args: Any, task: FairseqTask) -> ImageDescription:
        """Returns the description of the task's data set.

        Raises:
            UserError: if the task has no images.
        """
        if not isinstance(getattr(task, "description", None), ImageDescription):
            raise UserError(f"--arch {args.arch} is for --task image_prediction")
        return task.description

    def register_classification_head(self, name: str, outputs: int) -> None:
        """Adds a classification head with so many outputs."""
        self.classification_heads[name] = nn.Linear(self.width, outputs)

    def forward(
        self, source: Tensor, features_only: bool = False, classification_head_name: str | None = None
    ) -> tuple[Tensor, dict]:
        """
        Args:
            source: (B, C, H, W).

        Returns:
            The representation (B, D) or the output of a head, (B, outputs); and an empty dictionary, which fairseq's
            criteria expect.
        """
        x = self.encoder(source)
        if classification_head_name is not None:
            x = self.classification_heads[classification_head_name](x)
        return x, {}

    def max_positions(self) -> int:
        """Returns 1, the size of an image."""
        return 1

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Loads the parameters of a checkpoint.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        if strict:
            refuse_mismatch(self, state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg)
