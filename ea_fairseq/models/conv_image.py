"""Attention as convolution: heads that attend by position alone or also by content, with any mechanism.

Cordonnier et al., On the Relationship between Self-Attention and Convolutional Layers, ICLR 2020 ("CONV-SA").
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.attention.pixels import PixelAttention
from ea_fairseq.attention.registry import Family
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models.image import ImageEncoder, ImageModel, register_image
from ea_fairseq.models.image_options import ConvImageOptions

EPSILON = 1e-12  # of layer norms, BERT's
SIZES = {
    "base": {},
    "small": {  # of ours
        "encoder_layers": 4,
        "encoder_embed_dim": 96,
        "encoder_ffn_embed_dim": 384,
        "attention_dropout": 0.0,
    },
}
ALONE = {"relative_positions": "quadratic_image", "no_content_scores": True}


class ConvImageLayer(nn.Module):
    """Self-attention and a feed-forward network, each added to its input before a layer norm, as in BERT."""

    def __init__(self, args: Any, attention: type[Attention], context: LayerContext, heads: int):
        super().__init__()
        options = ConvImageOptions.from_namespace(args)
        width = options.encoder_embed_dim
        self.self_attn = PixelAttention(attention, args, context, width, heads)
        self.self_attn_layer_norm, self.final_layer_norm = (nn.LayerNorm(width, EPSILON) for _ in range(2))
        self.fc1 = nn.Linear(width, options.encoder_ffn_embed_dim)
        self.fc2 = nn.Linear(options.encoder_ffn_embed_dim, width)
        self.dropout, self.begins = nn.Dropout(options.dropout), context.layer == 0

    def forward(self, x: Tensor, previous: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(T, B, D) -> (T, B, D), and what the next layer takes as ``previous``."""
        # Attention; a new chain of maps begins where the number of heads changes.
        attended, passed = self.self_attn(x, None if self.begins else previous)
        x = self.self_attn_layer_norm(x + self.dropout(attended))
        # Feed-forward network.
        return self.final_layer_norm(x + self.dropout(self.fc2(F.gelu(self.fc1(x))))), passed


class ConvImageEncoder(ImageEncoder):
    """Patches as tokens, layers, and the mean of all tokens.

    Raises:
        UserError: if patches do not divide the images.
    """

    def __init__(self, args: Any, attention: type[Attention], description: ImageDescription):
        super().__init__()
        options = ConvImageOptions.from_namespace(args)
        self.width, patch = options.encoder_embed_dim, options.patch_size
        grid = Grid(*options.grid(description.height, description.width))
        self.embed_patches = nn.Conv2d(description.channels, self.width, patch, patch)
        layers, below, number = [], 0, 0
        for heads in options.heads_of_layers():
            if heads != below:
                number, shared = 0, dict[str, nn.Module]()
            layers.append(ConvImageLayer(args, attention, LayerContext("encoder", number, shared, grid), heads))
            below, number = heads, number + 1
        self.layers = nn.ModuleList(layers)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width)"""
        # Project the patches, in the order of rows, (T, B, width).
        x, passed = self.embed_patches(images).flatten(2).permute(2, 0, 1).contiguous(), None
        # Layers.
        for layer in self.layers:
            x, passed = layer(x, passed)
        return x.mean(dim=0)


class ConvImage(ImageModel):
    """A model whose heads attend as convolutions do, with one attention mechanism in its layers."""

    options = ConvImageOptions
    encoder_class = ConvImageEncoder


def register_conv_image(family: Family | None) -> None:
    """Registers a family's models of attention as convolution: ``ea_conv_image`` and ``ea_conv_image_small``."""
    register_image(ConvImage, "conv_image", family, {size: {**ALONE, **given} for size, given in SIZES.items()})


register_conv_image(None)
