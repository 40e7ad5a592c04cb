"""Tiny models of images, images that are drawn, and what the tests ask of them."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.images.description import ImageDescription
from encoders import OPTIONS
from tiny import built, make_loud

HEAD = "sentence_classification_head"


def describe(height: int, width: int | None = None, channels: int = 3, classes: int = 10) -> ImageDescription:
    labels = tuple(map(str, range(classes)))
    return ImageDescription(height, width or height, (0.5,) * channels, (0.25,) * channels, labels)


def build(arch: str, description: ImageDescription, seed: int = 1, **options) -> nn.Module:
    """A model of images, in evaluation mode."""
    model = built(arch, SimpleNamespace(description=description), seed, **options)
    model.register_classification_head(HEAD, description.outputs)
    return model.eval()


def draw(seed: int, description: ImageDescription, images: int = 3) -> Tensor:
    """Images (B, C, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(images, description.channels, description.height, description.width, generator=generator)


def classes(model: nn.Module, images: Tensor) -> Tensor:
    """Logits of the classes (B, classes)."""
    return model(images, classification_head_name=HEAD)[0]


TINY = {  # of an image's few pixels
    "vit_tiny": {
        "encoder_layers": 2,
        "encoder_embed_dim": 8,
        "encoder_ffn_embed_dim": 6,
        "encoder_attention_heads": 2,
        "patch_size": 2,
        "dropout": 0.0,
    },
    "aa_resnet_20": {"encoder_attention_heads": 2},
    "conv_image_small": {
        "encoder_layers": 2,
        "encoder_embed_dim": 6,
        "encoder_ffn_embed_dim": 5,
        "encoder_attention_heads": 3,
        "patch_size": 2,
        "dropout": 0.0,
    },
    "conv_transformer_image": {
        "stage_layers": 2,
        "stage_width": 8,
        "encoder_attention_heads": 2,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
}
IMAGES = {
    "vit_tiny": describe(4, 6),
    "aa_resnet_20": describe(12, 16),
    "conv_image_small": describe(4, 6),
    "conv_transformer_image": describe(8, 17),
}


def build_tiny(base: str, family: str | None = None, seed: int = 1, **options):
    """A tiny model of a family, its mechanism loud enough for a wrong number to show, its batch norms with statistics.

    Args:
        base: a key of ``TINY``; family: None for plain attention.
    """
    arch = base if family is None else FAMILIES[family].model(base)
    given = {**TINY[base], **(OPTIONS[family] if family else {}), **options}
    model = make_loud(build(arch, IMAGES[base], seed, **given))
    for name, tensor in (*model.named_buffers(), *model.named_parameters()):
        if "running" in name:
            torch.nn.init.uniform_(tensor, 0.5, 5.0 if "var" in name else 1.5)
        elif name.endswith(("class_token", "embed_positions", "norm.bias", ".bias")):  # which start as zero
            torch.nn.init.normal_(tensor, std=0.5)
    return model
