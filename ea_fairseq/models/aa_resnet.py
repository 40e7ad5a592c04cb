"""AA-ResNet: residual networks in which attention computes some channels of 3x3 convolutions.

Bello et al., Attention Augmented Convolutional Networks, ICCV 2019 ("AA"). With evolving attention: Wang et al.,
Evolving Attention with Residual Convolutions, ICML 2021 ("EA"), section 4.1. Widths are explained in docs/images.md.
"""

from itertools import pairwise
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
from ea_fairseq.models.build_attention import build_attention, refuse_idle_attention
from ea_fairseq.models.image import ImageEncoder, ImageModel, register_image
from ea_fairseq.models.image_options import DEPTHS, OF_ATTENTION, ResNetOptions
from ea_fairseq.models.resnet_layout import LAYOUTS, STEMS, halved, pooled
from ea_fairseq.options import require_defaults


def attend_to_pixels(attention: Attention, x: Tensor, previous: Passed) -> tuple[Tensor, Passed]:
    """Applies self-attention to an image's pixels, row after row.

    Returns:
        An image (B, C', H, W) of x (B, C, H, W), and what the next attention takes as ``previous``.
    """
    tokens = x.flatten(2).permute(2, 0, 1)
    attended, _, passed = attention(
        tokens, tokens, tokens, need_weights=False, previous=previous, masks=AttentionMasks()
    )
    return attended.permute(1, 2, 0).unflatten(2, x.shape[2:]), passed


class AugmentedConvolution(nn.Module):
    """A 3x3 convolution and self-attention over a pooled image, side by side (AA section 3.3).

    Args:
        channels: of the input; width: F of the output; attention computes ``values`` of these channels.
        poolings: number of poolings of the image before attention; each halves its sides.
        keys: total width of queries, and of keys.
    """

    def __init__(
        self,
        args: Any,
        attention: type[Attention],
        context: LayerContext,
        channels: int,
        width: int,
        stride: int,
        poolings: int,
        keys: int,
        values: int,
    ):
        super().__init__()
        self.conv, self.poolings = convolution(channels, width - values, 3, stride), poolings
        heads = ResNetOptions.from_namespace(args).encoder_attention_heads
        self.self_attn = build_attention(
            attention, args, context, values, heads, channels, keys, bias=False, self_attention=True
        )
        self.begins = context.layer == 0  # a chain of maps of one size

    def forward(self, x: Tensor, previous: Passed) -> tuple[Tensor, Passed]:
        """(B, C, H, W) -> (B, F, H', W'), and what the next attention takes as ``previous``."""
        convolved = self.conv(x)
        # Attention of the pooled image; a new chain of maps begins where their size changes.
        for _ in range(self.poolings):
            x = F.avg_pool2d(x, 3, 2, ceil_mode=True)
        attended, passed = attend_to_pixels(self.self_attn, x, NOTHING if self.begins else previous)
        # Back to the convolution's size.
        if attended.shape[2:] != convolved.shape[2:]:
            attended = F.interpolate(attended, convolved.shape[2:], mode="bilinear", align_corners=False)
        return torch.cat([convolved, attended], dim=1), passed


class Block(nn.Module):
    """Two 3x3 convolutions, or a 3x3 between two 1x1 ones, added to the block's input.

    Args:
        convolutions: of the block, in order.
        shortcut: transforms the input before it is added; the identity if sizes are the same.
    """

    def __init__(self, convolutions: list[nn.Module], widths: list[int], shortcut: nn.Module):
        super().__init__()
        self.convs = nn.ModuleList(convolutions)
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, widths))
        self.shortcut = shortcut

    def forward(self, x: Tensor, passed: Passed) -> tuple[Tensor, Passed]:
        """(B, C, H, W) -> (B, C', H', W'), and what the next attention takes."""
        residual = self.shortcut(x)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if i:
                x = F.relu(x)
            if isinstance(conv, AugmentedConvolution):
                x, passed = conv(x, passed)
            else:
                x = conv(x)
            x = norm(x)
        return F.relu(x + residual), passed


class ResNetEncoder(ImageEncoder):
    """A residual network, with attention in all stages but the first.

    Raises:
        UserError: if images are too small, or if a mechanism or a flag has no attention to act on.
    """

    def __init__(self, args: Any, attention: type[Attention], description: ImageDescription):
        super().__init__()
        options = ResNetOptions.from_namespace(args)
        layout = self.layout = LAYOUTS[options.resnet_depth]
        if options.augment == "none":
            reason = "--augment none leaves no attention"
            refuse_idle_attention(args, attention, reason, "resnet_34, or another depth,")
            require_defaults(options, reason, OF_ATTENTION)
        require_defaults(options, "residual networks have no dropout", ("dropout",))
        self.chains, self.args, self.attention, self.options = Chains(attention), args, attention, options
        kernel, stride = STEMS["small" if layout.is_small else "large"]
        self.stem = convolution(description.channels, layout.widths[0], kernel, stride)
        self.stem_norm = nn.BatchNorm2d(layout.widths[0])
        sides = (description.height, description.width)
        for _ in range(0 if layout.is_small else 2):
            sides = halved(sides)
        channels, blocks = layout.widths[0], []
        for stage, (count, width) in enumerate(zip(layout.blocks, layout.widths, strict=True)):
            for block in range(count):
                stride = 2 if stage and not block else 1
                blocks.append(self.block(channels, width, stride, stage, sides))
                channels = width * layout.expansion
                sides = halved(sides) if stride == 2 else sides
        self.blocks, self.width = nn.ModuleList(blocks), channels

    def block(self, channels: int, width: int, stride: int, stage: int, sides: tuple[int, int]) -> Block:
        """Builds a block of a stage, whose input has so many channels and pixels a side."""
        given = width * self.layout.expansion
        # Of a bottleneck, only the 3x3 convolution can be augmented.
        if self.layout.expansion == 1:
            kernels, widths, strides = [3, 3], [width, width], [stride, 1]
        else:
            kernels, widths, strides = [1, 3, 1], [width, width, given], [1, stride, 1]
        augmented = {"none": 0, "first": 1, "both": 2}[self.options.augment] if stage else 0
        convolutions: list[nn.Module] = []
        for kernel, step, (read, give) in zip(kernels, strides, pairwise([channels, *widths]), strict=True):
            if kernel == 3 and augmented:
                augmented -= 1
                convolutions.append(self.augmented(read, give, step, stage, sides))
            else:
                convolutions.append(convolution(read, give, kernel, step))
            sides = halved(sides) if step == 2 else sides
        shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != given:
            shortcut = nn.Sequential(convolution(channels, given, 1, stride), nn.BatchNorm2d(given))
        return Block(convolutions, widths, shortcut)

    def augmented(
        self, channels: int, width: int, stride: int, stage: int, sides: tuple[int, int]
    ) -> AugmentedConvolution:
        """Builds a 3x3 convolution with attention; in the second stage, attention reads a quarter of the pixels."""
        poolings = int(stride == 2) + int(stage == 1)
        for _ in range(poolings):
            sides = pooled(sides)
        heads = self.options.encoder_attention_heads
        keys, values = self.layout.key_width(width, heads), self.layout.value_width(width, heads)
        if values >= width:
            raise UserError(f"--encoder-attention-heads {heads} are too many: attention takes all {width} channels")
        context = self.chains.context(Grid(*sides), values)
        return AugmentedConvolution(self.args, self.attention, context, channels, width, stride, poolings, keys, values)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width)"""
        # The first convolution and, for large images, pooling.
        x = F.relu(self.stem_norm(self.stem(images)))
        if not self.layout.is_small:
            x = F.max_pool2d(x, 3, 2, 1)
        # Blocks.
        passed = NOTHING
        for block in self.blocks:
            x, passed = block(x, passed)
        # The mean of all pixels.
        return x.mean(dim=(2, 3))


class Chains:
    """Numbers attentions in chains of maps of one size, where each reads what the one before passes on."""

    def __init__(self, attention: type[Attention]):
        self.passes_values = attention.passes_values
        self.key: tuple[Grid, int | None] | None = None

    def context(self, grid: Grid, values: int) -> LayerContext:
        """Returns the next attention's context; a chain begins if the grid or the width of passed values changes."""
        key = grid, values if self.passes_values else None
        if key != self.key:
            self.key, self.layer, self.shared = key, 0, dict[str, nn.Module]()
        context = LayerContext("encoder", self.layer, self.shared, grid)
        self.layer += 1
        return context


def convolution(channels: int, width: int, kernel: int, stride: int) -> nn.Conv2d:
    """Builds a convolution without bias, initialised as in He et al., Delving Deep into Rectifiers, ICCV 2015.

    Its weight and output are in channels-last memory format, which is faster on CPUs and GPUs.
    """
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    conv.weight = nn.Parameter(conv.weight.detach().contiguous(memory_format=torch.channels_last))
    return conv


class AAResNet(ImageModel):
    """A residual network whose convolutions are augmented by attention with one mechanism."""

    options = ResNetOptions
    encoder_class = ResNetEncoder


def sizes(**defaults: object) -> dict[str, dict[str, object]]:
    """Returns defaults of architectures by depth; the first, 34, also apply to the model's own name."""
    depths = sorted(DEPTHS, key=lambda depth: depth != 34)
    both = {34: {"augment": "both"}}
    return {str(depth): {"resnet_depth": depth, **both.get(depth, {}), **defaults} for depth in depths}


def register_aa_resnet(family: Family | None) -> None:
    """Registers a family's residual networks: ``ea_aa_resnet_20`` to ``ea_aa_resnet_152``."""
    register_image(AAResNet, "aa_resnet", family, sizes(relative_positions="image"))


register_aa_resnet(None)
register_image(AAResNet, "resnet", None, sizes(augment="none"))
