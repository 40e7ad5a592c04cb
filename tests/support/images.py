"""Tiny models of images, images that are drawn, and what the tests ask of them."""

import argparse
from types import SimpleNamespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import Tensor, nn

from ea_fairseq.images.description import ImageDescription

HEAD = "sentence_classification_head"


def describe(height: int, width: int | None = None, channels: int = 3, classes: int = 10) -> ImageDescription:
    labels = tuple(map(str, range(classes)))
    return ImageDescription(height, width or height, (0.5,) * channels, (0.25,) * channels, labels)


def build(arch: str, description: ImageDescription, seed: int = 1, **options) -> nn.Module:
    """A model in evaluation mode, as fairseq's command line would build it from these options."""
    args = argparse.Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(seed)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, SimpleNamespace(description=description))
    model.register_classification_head(HEAD, description.outputs)
    return model.eval()


def draw(seed: int, description: ImageDescription, images: int = 3) -> Tensor:
    """Images (B, C, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(images, description.channels, description.height, description.width, generator=generator)


def classes(model: nn.Module, images: Tensor) -> Tensor:
    """Logits of the classes (B, classes)."""
    return model(images, classification_head_name=HEAD)[0]
