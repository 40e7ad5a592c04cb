"""Flags of models of images."""

from dataclasses import dataclass

from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.options import Options, fraction, one_of, option, whole

MOST = 1 << 16
DEPTHS = (20, 34, 50, 101, 152)  # of residual networks


def depth(text: str) -> int:
    """Parses the depth of a residual network; raises ValueError if no network has this depth."""
    number = int(text)
    if number not in DEPTHS:
        raise ValueError(text)
    return number


def channels(text: str) -> int:
    """Parses a number of channels that can be quartered; raises ValueError otherwise."""
    number = whole(4, MOST)(text)
    if number % 4:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class ImageOptions(Options):
    """Options of all models of images.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dropout: float = option(0.0, fraction, "dropout", "a number from 0 to 1", "F")
    attention_dropout: float = option(0.0, fraction, "dropout of attention probabilities", "a number from 0 to 1", "F")
    encoder_attention_heads: int = option(
        8, whole(1, MOST), "heads of an attention", f"a whole number from 1 to {MOST:,}", "N"
    )

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """Returns upper limits of the depth of a residual network and of patches, from a checkpoint's parameters."""
        largest = max((max(tensor.shape, default=1) for tensor in parameters.values()), default=1)
        return {"resnet_depth": len(parameters), "patch_size": largest}


@dataclass(frozen=True)
class PatchOptions(ImageOptions):
    """Options of models whose tokens are patches of an image.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    encoder_layers: int = option(12, whole(1, 1000), "layers", "a whole number from 1 to 1,000", "N")
    encoder_embed_dim: int = option(
        768, whole(1, MOST), "channels of a token", f"a whole number from 1 to {MOST:,}", "N"
    )
    encoder_ffn_embed_dim: int = option(
        3072, whole(1, MOST), "channels inside a feed-forward network", f"a whole number from 1 to {MOST:,}", "N"
    )
    patch_size: int = option(
        16,
        whole(1, MOST),
        "pixels a side of the square patches, each of which is a token",
        "a whole number from 1",
        "N",
    )

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Returns the number of rows and columns of patches in an image.

        Raises:
            UserError: if patches do not divide the image.
        """
        size = self.patch_size
        if height % size or width % size:
            raise UserError(f"--patch-size {size} does not divide images of {height} x {width} pixels")
        return height // size, width // size


@dataclass(frozen=True)
class VitOptions(PatchOptions):
    """Options of vision transformers; defaults are those of ViT-B/16.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    encoder_attention_heads: int = option(
        12, whole(1, MOST), "heads of an attention", f"a whole number from 1 to {MOST:,}", "N"
    )
    vit_pool: str = option(
        "class",
        one_of("class", "mean"),
        "what the classes are predicted from: the class token, or the mean of all patches, without such a token",
        "class or mean",
        "HOW",
    )


@dataclass(frozen=True)
class ConvImageOptions(PatchOptions):
    """Options of attention as convolution; defaults are CONV-SA's.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dropout: float = option(0.1, fraction, "dropout", "a number from 0 to 1", "F")
    attention_dropout: float = option(0.1, fraction, "dropout of attention probabilities", "a number from 0 to 1", "F")
    encoder_layers: int = option(6, whole(1, 1000), "layers", "a whole number from 1 to 1,000", "N")
    encoder_embed_dim: int = option(
        400, whole(1, MOST), "channels of a token", f"a whole number from 1 to {MOST:,}", "N"
    )
    encoder_ffn_embed_dim: int = option(
        512, whole(1, MOST), "channels inside a feed-forward network", f"a whole number from 1 to {MOST:,}", "N"
    )
    encoder_attention_heads: int = option(
        9, whole(1, MOST), "heads of an attention, each with as many channels as a token", "a whole number from 1", "N"
    )
    patch_size: int = option(
        2, whole(1, MOST), "pixels a side of the square patches, each of which is a token", "a whole number from 1", "N"
    )
    pruned_heads: str = option(
        "",
        str,
        "how many heads are removed from each layer, such as 2,4,1,2,6,0",
        "whole numbers with commas",
        "N,...",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.heads_of_layers()

    def heads_of_layers(self) -> list[int]:
        """Returns the number of heads of each layer.

        Raises:
            UserError: if ``--pruned-heads`` does not have a number for each layer, or leaves a layer without heads.
        """
        numbers = self.pruned_heads.split(",") if self.pruned_heads else ["0"] * self.encoder_layers
        if len(numbers) != self.encoder_layers or not all(number.isdecimal() for number in numbers):
            raise UserError(f"--pruned-heads must have {self.encoder_layers} whole numbers, one for each layer")
        left = [self.encoder_attention_heads - int(number) for number in numbers]
        if min(left) < 1:
            raise UserError(
                f"--pruned-heads must leave each layer at least one of {self.encoder_attention_heads} heads"
            )
        return left


@dataclass(frozen=True)
class ConvTransformerImageOptions(ImageOptions):
    """Options of models with attention and a convolution in parallel; defaults are PA's for CIFAR-10.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dropout: float = option(0.2, fraction, "dropout", "a number from 0 to 1", "F")
    attention_dropout: float = option(0.2, fraction, "dropout of attention probabilities", "a number from 0 to 1", "F")
    stage_layers: int = option(3, whole(1, 250), "layers of each of four stages", "a whole number from 1 to 250", "N")
    stage_width: int = option(
        64, channels, "channels of the first stage; others have two or four times as many", "a multiple of 4", "N"
    )
    encoder_attention_heads: int = option(
        4, whole(1, MOST), "heads of an attention", f"a whole number from 1 to {MOST:,}", "N"
    )
    attention_stages: int = option(
        2,
        whole(0, 4),
        "number of last stages in which attention computes half of the channels",
        "0 to 4",
        "N",
    )

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """Returns upper limits of layers and width: all layers but the first have a dense connection."""
        dense = [len(x) for name, x in parameters.items() if name.endswith(".dense.weight") and x.dim() == 4]
        return {"stage_layers": len(dense) // 4 + 1, "stage_width": max(dense, default=4) // 4}


@dataclass(frozen=True)
class ResNetOptions(ImageOptions):
    """Options of residual networks with attention-augmented convolutions.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    resnet_depth: int = option(34, depth, "layers of the network", "one of " + ", ".join(map(str, DEPTHS)), "N")
    augment: str = option(
        "first",
        one_of("none", "first", "both"),
        "which 3x3 convolutions of a block attention augments, from the second of four stages on: none, the first, or "
        "both",
        "none, first or both",
        "WHICH",
    )
