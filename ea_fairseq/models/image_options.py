"""Flags of models of images."""

from dataclasses import dataclass

from ea_fairseq.errors import UserError
from ea_fairseq.options import DEPTH, FRACTION, SIZE, Options, Values, one_of, option, whole

OF_ATTENTION = ("attention_dropout", "encoder_attention_heads")  # options that a model without attention does not use
DEPTHS = (20, 34, 50, 101, 152)  # of residual networks


def depth(text: str) -> int:
    """Parses the depth of a residual network; raises ValueError if no network has this depth."""
    number = int(text)
    if number not in DEPTHS:
        raise ValueError(text)
    return number


def channels(text: str) -> int:
    """Parses a number of channels that can be quartered; raises ValueError otherwise."""
    number = SIZE.parse(text)
    if number % 4:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class ImageOptions(Options):
    """Options of all models of images.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dropout: float = option(0.0, FRACTION, "dropout")
    attention_dropout: float = option(0.0, FRACTION, "dropout of attention probabilities")
    encoder_attention_heads: int = option(8, SIZE, "heads of an attention")


@dataclass(frozen=True)
class PatchOptions(ImageOptions):
    """Options of models whose tokens are patches of an image.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    encoder_layers: int = option(12, DEPTH, "layers")
    encoder_embed_dim: int = option(768, SIZE, "channels of a token")
    encoder_ffn_embed_dim: int = option(3072, SIZE, "channels inside a feed-forward network")
    patch_size: int = option(16, SIZE, "pixels a side of the square patches, each of which is a token")

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

    encoder_attention_heads: int = option(12, SIZE, "heads of an attention")
    vit_pool: str = option(
        "class",
        one_of("class", "mean", metavar="HOW"),
        "what the classes are predicted from: the class token, or the mean of all patches, without such a token",
    )


@dataclass(frozen=True)
class ConvImageOptions(PatchOptions):
    """Options of attention as convolution; defaults are CONV-SA's.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    dropout: float = option(0.1, FRACTION, "dropout")
    attention_dropout: float = option(0.1, FRACTION, "dropout of attention probabilities")
    encoder_layers: int = option(6, DEPTH, "layers")
    encoder_embed_dim: int = option(400, SIZE, "channels of a token")
    encoder_ffn_embed_dim: int = option(512, SIZE, "channels inside a feed-forward network")
    encoder_attention_heads: int = option(9, SIZE, "heads of an attention, each with as many channels as a token")
    patch_size: int = option(2, SIZE, "pixels a side of the square patches, each of which is a token")
    pruned_heads: str = option(
        "",
        Values(str, "whole numbers with commas", "N,..."),
        "how many heads are removed from each layer, such as 2,4,1,2,6,0",
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

    dropout: float = option(0.2, FRACTION, "dropout")
    attention_dropout: float = option(0.2, FRACTION, "dropout of attention probabilities")
    stage_layers: int = option(3, whole(1, 250), "layers of each of four stages")
    stage_width: int = option(
        64,
        Values(channels, "a multiple of 4", "N"),
        "channels of the first stage; others have two or four times as many",
    )
    encoder_attention_heads: int = option(4, SIZE, "heads of an attention")
    attention_stages: int = option(
        2, whole(0, 4), "number of last stages in which attention computes half of the channels"
    )


@dataclass(frozen=True)
class ResNetOptions(ImageOptions):
    """Options of residual networks with attention-augmented convolutions.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    resnet_depth: int = option(34, Values(depth, "one of " + ", ".join(map(str, DEPTHS)), "N"), "layers of the network")
    augment: str = option(
        "first",
        one_of("none", "first", "both", metavar="WHICH"),
        "which 3x3 convolutions of a block attention augments, from the second of four stages on: none, the first, or "
        "both",
    )
