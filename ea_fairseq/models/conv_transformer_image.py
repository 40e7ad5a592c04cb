"""Conv-Transformer for images: Predictive Attention Transformer, submitted to ICLR 2021 ("PA"), sections 4.2.1, B.3.1.

Attention computes one half of a block's channels and a convolution the other, on images reduced to a quarter of their
sides or less; blocks are densely connected. docs/images.md says what the paper leaves open.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import Grid
from ea_fairseq.attention.registry import Family
from ea_fairseq.errors import UserError
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models.aa_resnet import Chains, attend_to_pixels, convolution
from ea_fairseq.models.build_attention import build_attention, refuse_idle_attention
from ea_fairseq.models.image import ImageEncoder, ImageModel, register_image
from ea_fairseq.models.image_options import OF_ATTENTION, ConvTransformerImageOptions
from ea_fairseq.options import require_defaults

STAGES = 4
WIDTHS = (1, 2, 4, 4)  # of stages, relative to the first


class ConvTransformerLayer(nn.Module):
    """A convolution, parallel to self-attention or alone, and a feed-forward network (PA figure 4, in 2 dimensions).

    Args:
        reads: channels of all outputs before this layer; None for the first, which reads an image of its width.
        attention: computes half of the channels; or None.
    """

    def __init__(self, reads: int | None, width: int, attention: Attention | None, dropout: float):
        super().__init__()
        self.dense: nn.Module = nn.Identity()
        if reads is not None:  # scaled so that the sum of many inputs is as large as one of them
            self.dense = convolution(reads, width, 1, 1)
            nn.init.kaiming_normal_(self.dense.weight, nonlinearity="linear")
        self.self_attn, self.attended = attention, 0 if attention is None else width // 2
        convolved = width - self.attended
        self.branch = nn.Sequential(
            convolution(convolved, convolved // 2, 1, 1),
            nn.ReLU(),
            convolution(convolved // 2, convolved // 2, 3, 1),
            nn.ReLU(),
            convolution(convolved // 2, convolved, 1, 1),
        )
        self.fc1, self.fc2 = convolution(width, 2 * width, 1, 1), convolution(2 * width, width, 1, 1)
        self.norms, self.dropout = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2)), nn.Dropout(dropout)

    def forward(self, outputs: list[Tensor], passed: Passed) -> tuple[Tensor, Passed]:
        """Images (B, C_i, H, W) of all layers before -> (B, C, H, W), and what the next attention takes."""
        x = self.dense(torch.cat(outputs, dim=1))
        # Attention of all channels, and the convolution of the last ones.
        y = self.branch(x[:, self.attended :])
        if self.self_attn is not None:
            attended, passed = attend_to_pixels(self.self_attn, x, passed)
            y = torch.cat([attended, y], dim=1)
        x = self.norms[0](x + self.dropout(y))
        # Feed-forward network (PA eq. 6).
        return self.norms[1](x + self.dropout(self.fc2(F.relu(self.fc1(x))))), passed


class ConvTransformerImageEncoder(ImageEncoder):
    """Four stages of densely connected layers, each of half the sides of the one before; attention in the last ones.

    Raises:
        UserError: if images are too small, if heads do not divide the channels, or if a mechanism or a flag has no
            attention to act on.
    """

    def __init__(self, args: Any, attention: type[Attention], description: ImageDescription):
        super().__init__()
        options = ConvTransformerImageOptions.from_namespace(args)
        sides = description.height, description.width
        if min(sides) < 2 ** (STAGES - 1):
            raise UserError(f"images of {sides[0]} x {sides[1]} pixels are too small to be halved {STAGES - 1} times")
        if not options.attention_stages:
            reason = "--attention-stages 0 leaves no attention"
            refuse_idle_attention(args, attention, reason, "cnn_image")
            require_defaults(options, reason, OF_ATTENTION)
        widths = [options.stage_width * factor for factor in WIDTHS]
        self.stem, self.stem_norm = convolution(description.channels, widths[0], 3, 1), nn.BatchNorm2d(widths[0])
        self.count, chains, reads, layers = options.stage_layers, Chains(attention), 0, []
        for stage, width in enumerate(widths):
            grid, heads = Grid(*(side >> stage for side in sides)), options.encoder_attention_heads
            for _ in range(self.count):
                attends = None
                if stage >= STAGES - options.attention_stages:
                    if width // 2 % heads:
                        raise UserError(f"--encoder-attention-heads {heads} does not divide {width // 2} channels")
                    context = chains.context(grid, width // 2)
                    attends = build_attention(
                        attention, args, context, width // 2, heads, width, bias=False, self_attention=True
                    )
                    if attends.width("v") != width // 2:
                        raise UserError(
                            "--full-width-heads is for attentions that project their outputs, and this model has "
                            "none: leave it out"
                        )
                    attends.out_proj = nn.Identity()  # as in classifiers
                layers.append(ConvTransformerLayer(reads or None, width, attends, options.dropout))
                reads += width
        self.layers, self.width = nn.ModuleList(layers), widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width)"""
        # The first convolution, whose output only the first layer reads.
        x = F.relu(self.stem_norm(self.stem(images)))
        # Stages; each begins a new chain of maps.
        outputs: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            if number % self.count == 0:
                outputs, passed = [F.avg_pool2d(output, 2) for output in outputs], NOTHING
            x, passed = layer(outputs or [x], passed)
            outputs.append(x)
        # The mean of all pixels.
        return x.mean(dim=(2, 3))


class ConvTransformerImage(ImageModel):
    """Convolutions over images, with one attention mechanism parallel to those of the last stages."""

    options = ConvTransformerImageOptions
    encoder_class = ConvTransformerImageEncoder


def register_conv_transformer_image(family: Family | None) -> None:
    """Registers a family's model, such as ``pa_conv_transformer_image``, and its ``_base``."""
    register_image(ConvTransformerImage, "conv_transformer_image", family, {"base": {}})


register_conv_transformer_image(None)
register_image(ConvTransformerImage, "cnn_image", None, {"base": {"attention_stages": 0}})
