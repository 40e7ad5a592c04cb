"""ViT: Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, and with evolving attention EA-ViT.

EA-ViT is in Wang et al., Convolution-enhanced Evolving Attention Networks, 2022 ("CEAN"), sections 3.4 and 4.4. A map
includes the class token's row and column, and the mechanism runs over all of it.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.attention.registry import Family
from ea_fairseq.errors import UserError
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.models.build_attention import build_attention
from ea_fairseq.models.image import ImageEncoder, ImageModel, register_image
from ea_fairseq.models.image_options import VitOptions
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.options import Options

EPSILON = 1e-6  # of layer norms
POSITIONS_STD = 0.02
SIZES: Mapping[str, Mapping[str, object]] = {
    "base": {"encoder_layers": 12, "encoder_embed_dim": 768, "encoder_ffn_embed_dim": 3072},
    "tiny": {"encoder_layers": 6, "encoder_embed_dim": 192, "encoder_ffn_embed_dim": 768}
    | {"encoder_attention_heads": 6, "patch_size": 4, "dropout": 0.1},  # of ours, for images of 32 x 32
    "large": {"encoder_layers": 24, "encoder_embed_dim": 1024, "encoder_ffn_embed_dim": 4096}
    | {"encoder_attention_heads": 16},
}


class VitLayer(nn.Module):
    """Self-attention and a feed-forward network, each after a layer norm, and added to its input."""

    def __init__(self, args: Any, attention: type[Attention], context: LayerContext):
        super().__init__()
        options, parts = VitOptions.from_namespace(args), LayerOptions.from_namespace(args)
        width, heads = options.encoder_embed_dim, options.encoder_attention_heads
        if parts.connections != "residual":
            raise UserError(f"--connections {parts.connections} is for models of text: leave it out")
        hidden, has_bias = options.encoder_ffn_embed_dim, not parts.no_biases
        self.self_attn = build_attention(attention, args, context, width, heads, self_attention=True)
        self.self_attn_layer_norm, self.final_layer_norm = (parts.norm_of(width, EPSILON) for _ in range(2))
        self.fc1 = nn.Linear(width, parts.first_outputs(hidden), has_bias)
        self.fc2 = nn.Linear(parts.hidden_units(hidden), width, has_bias)
        self.activation = parts.activation(F.gelu)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, x: Tensor, previous: Passed) -> tuple[Tensor, Passed]:
        """(T, B, C) -> (T, B, C), and what the next layer takes as ``previous``."""
        # Self-attention.
        normed = self.self_attn_layer_norm(x)
        attended, _, passed = self.self_attn(
            normed, normed, normed, need_weights=False, previous=previous, masks=AttentionMasks()
        )
        x = x + self.dropout(attended)
        # Feed-forward network.
        hidden = self.dropout(self.activation(self.fc1(self.final_layer_norm(x))))
        return x + self.dropout(self.fc2(hidden)), passed


class VitEncoder(ImageEncoder):
    """Patches as tokens, with a class token before them.

    Raises:
        UserError: if patches do not divide the images, or heads the channels.
    """

    def __init__(self, args: Any, attention: type[Attention], description: ImageDescription):
        super().__init__()
        options = VitOptions.from_namespace(args)
        self.width = options.encoder_embed_dim
        if self.width % options.encoder_attention_heads:
            raise UserError(
                f"--encoder-attention-heads {options.encoder_attention_heads} does not divide --encoder-embed-dim "
                f"{self.width}"
            )
        has_class = options.vit_pool == "class"
        grid = Grid(*options.grid(description.height, description.width), leading=int(has_class))
        self.embed_patches = nn.Conv2d(description.channels, self.width, options.patch_size, options.patch_size)
        self.class_token = nn.Parameter(torch.zeros(self.width)) if has_class else None
        self.embed_positions = nn.Parameter(POSITIONS_STD * torch.randn(grid.tokens, self.width))
        self.dropout = nn.Dropout(options.dropout)
        shared: dict[str, nn.Module] = {}
        contexts = (LayerContext("encoder", layer, shared, grid) for layer in range(options.encoder_layers))
        self.layers = nn.ModuleList(VitLayer(args, attention, context) for context in contexts)
        parts = LayerOptions.from_namespace(args)
        self.layer_norm = parts.norm_of(self.width, EPSILON)
        self.final_dropout = nn.Dropout(options.dropout) if parts.final_dropout else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width)"""
        # Project the patches, in the order of rows, (T, B, width); the class token comes first.
        x = self.embed_patches(images).flatten(2).permute(2, 0, 1)
        if self.class_token is not None:
            x = torch.cat([self.class_token.type_as(x).expand(1, x.size(1), -1), x])
        x = self.dropout(x + self.embed_positions.unsqueeze(1))
        # Layers.
        passed = NOTHING
        for layer in self.layers:
            x, passed = layer(x, passed)
        # The class token, or the mean of all patches.
        x = self.final_dropout(self.layer_norm(x))
        return x.mean(dim=0) if self.class_token is None else x[0]


class Vit(ImageModel):
    """A vision transformer with one attention mechanism in its layers."""

    options = VitOptions
    encoder_class = VitEncoder

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns all option classes."""
        return *super().option_classes(), LayerOptions


def register_vit(family: Family | None) -> None:
    """Registers a family's vision transformers: ``ea_vit_tiny``, ``ea_vit_base`` and ``ea_vit_large``."""
    register_image(Vit, "vit", family, SIZES)


register_vit(None)
