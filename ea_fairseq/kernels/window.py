"""Which neighbours of an entry of an attention map a convolution reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Which neighbours of an entry (query row t, key column s) a convolution of radius r reads.

    In units of r: columns s - left*r .. s + right*r and rows t - above*r .. t + below*r. Where a later row is a
    later target word, the window never reaches below row t.
    """

    left: int
    right: int
    above: int
    below: int

    def padding(self, kernel_size: int) -> tuple[int, int, int, int]:
        """Columns to the left and right, and rows above and below, that a kernel reads beyond its entry."""
        radius = (kernel_size - 1) // 2
        return self.left * radius, self.right * radius, self.above * radius, self.below * radius


ENCODER_WINDOW = Window(left=1, right=1, above=1, below=1)
DECODER_WINDOW = Window(left=2, right=0, above=2, below=0)  # shifted one down and one right
CROSS_WINDOW = Window(left=1, right=1, above=2, below=0)  # shifted along the target axis
WINDOWS = {"encoder": ENCODER_WINDOW, "decoder": DECODER_WINDOW, "cross": CROSS_WINDOW}
