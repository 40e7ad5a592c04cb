"""Code that all models of images share: an encoder, and a linear layer to the classes."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fairseq.models import register_model_architecture
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import Family
from ea_fairseq.errors import UserError
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models.image_options import ImageOptions
from ea_fairseq.models.mechanism_model import MechanismModel, mark_embeddings, register, set_options
from ea_fairseq.options import Options


class ImageEncoder(nn.Module):
    """Maps images (B, C, H, W) to vectors (B, width)."""

    width: int


class ImageModel(MechanismModel):
    """An encoder of images with one attention mechanism; the task adds the linear layer to its classes.

    Args:
        args: the model's options.
        encoder: maps images to vectors (B, D).
        description: the data set's description.
    """

    options: ClassVar[type[ImageOptions]] = ImageOptions
    encoder_class: ClassVar[type[ImageEncoder]]

    def __init__(self, args: Any, encoder: ImageEncoder, description: ImageDescription):
        super().__init__()
        self.args, self.encoder, self.description = args, encoder, description
        self.classification_heads = nn.ModuleDict()
        mark_embeddings(self)

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns all option classes."""
        return *super().option_classes(), cls.options

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "ImageModel":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism; or the task, if
                it has no images.
        """
        if not isinstance(description := getattr(task, "description", None), ImageDescription):
            raise UserError(f"--arch {args.arch} is for --task image_prediction")
        cls.refuse_decoder_flags(args)
        cls.check_args(args)
        encoder = cls.encoder_class(args, cls.family.attention, description)
        return cls(args, encoder, description)

    def register_classification_head(self, name: str, outputs: int) -> None:
        """Adds the linear layer to so many classes."""
        self.classification_heads[name] = nn.Linear(self.encoder.width, outputs)

    def forward(
        self, source: Tensor, features_only: bool = False, classification_head_name: str | None = None
    ) -> tuple[Tensor, dict]:
        """
        Args:
            source: (B, C, H, W), standardized.

        Returns:
            Logits of the classes, (B, outputs), or the vectors that a head reads, (B, D); and an empty dictionary,
            which fairseq's criteria expect.
        """
        x = self.encoder(source)
        return x if classification_head_name is None else self.classification_heads[classification_head_name](x), {}

    def max_positions(self) -> int:
        """Returns 1, the size of an image."""
        return 1


def register_image(
    kind: type[ImageModel], base: str, family: Family | None, sizes: Mapping[str, Mapping[str, object]]
) -> None:
    """Registers a family's models of images, such as ``ea_vit``, unless its layers have another branch.

    Args:
        base: the model's name without a mechanism.
        family: None for plain attention.
        sizes: defaults of options, by the end of the architecture's name; the first also apply to the model's name.
    """
    if family is None:
        name, family = base, Family(base, Attention, {})
    elif family.attention.has_branch:
        return
    else:
        name = family.model(base)
    model = register(name, kind, family=family, __module__=__name__, __doc__=family.attention.__doc__)
    defaults = {size: {**given, **family.image_defaults(base)} for size, given in sizes.items()}
    archs = {name: next(iter(defaults.values()))} | {f"{name}_{size}": given for size, given in defaults.items()}
    for arch, given in archs.items():
        register_model_architecture(name, arch)(
            lambda args, given=given: set_options(args, model.option_classes(), given)
        )
