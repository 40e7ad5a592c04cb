"""Residual networks by their depth, and the sizes of their images."""

from typing import Any

from ea_fairseq.errors import UserError

STEMS = {"small": (3, 1), "large": (7, 2)}  # kernel and stride of the first convolution


class Layout:
    """A residual network by its depth: He et al., Deep Residual Learning for Image Recognition, CVPR 2016.

    Args:
        blocks: number of blocks of each stage.
        widths: of the 3x3 convolutions of each stage.
        expansion: factor of the width at the end of a block; above 1, a block is a bottleneck.
        key_share, value_share: widths of queries and keys, and of values, as parts of the width F of an augmented
            convolution, each rounded down to a multiple of the heads.
        narrowest: least width of a head's queries and keys.
    """

    def __init__(
        self,
        blocks: tuple[int, ...],
        widths: tuple[int, ...] = (64, 128, 256, 512),
        expansion: int = 1,
        key_share: float = 0.25,
        value_share: float = 0.125,
        narrowest: int = 1,
    ):
        self.blocks, self.widths, self.expansion = blocks, widths, expansion
        self.key_share, self.value_share, self.narrowest = key_share, value_share, narrowest
        self.is_small = len(blocks) == 3  # for images of 32 x 32

    def key_width(self, width: int, heads: int) -> int:
        """Returns dk, the total width of queries or keys of all heads."""
        return heads * max(int(self.key_share * width) // heads, self.narrowest)

    def value_width(self, width: int, heads: int) -> int:
        """Returns dv, the total width of values of all heads."""
        return heads * max(int(self.value_share * width) // heads, 1)


BOTTLENECK: dict[str, Any] = {"expansion": 4, "key_share": 0.2, "value_share": 0.1, "narrowest": 20}
LAYOUTS = {
    20: Layout((3, 3, 3), (16, 32, 64), value_share=0.25),
    34: Layout((3, 4, 6, 3)),
    50: Layout((3, 4, 6, 3), **BOTTLENECK),
    101: Layout((3, 4, 23, 3), **BOTTLENECK),
    152: Layout((3, 8, 36, 3), **BOTTLENECK),
}


def halved(sides: tuple[int, int]) -> tuple[int, int]:
    """Returns the sides after a convolution or pooling of stride 2 with padding."""
    return (sides[0] + 1) // 2, (sides[1] + 1) // 2


def pooled(sides: tuple[int, int]) -> tuple[int, int]:
    """Returns the sides after an average pooling of 3 with stride 2, without padding; the last window may overhang.

    Raises:
        UserError: if a side has less than 3 pixels.
    """
    if min(sides) < 3:
        raise UserError("the images are too small for attention in this network: take one of less depth")
    return sides[0] // 2, sides[1] // 2
