"""What a mechanism lets kernels compute between the scores of an attention and its softmax."""

from dataclasses import dataclass

from torch import nn

from ea_fairseq.attention.window import Window


@dataclass(frozen=True)
class FusedLogits:
    """What a mechanism lets kernels compute, its own logits being the scaled scores.

    mixed = own_weight * own + previous_weight * previous, zero where masked; just ``own`` where there are no previous
    logits or their weight is 0. Then logits = (1 - beta) * mixed + beta * relu(conv(mixed)); without ``conv`` just
    ``mixed``.

    Args:
        own_weight, previous_weight: of this layer's own logits and of those of the layer below.
        conv: K heads to K heads, with a bias, its kernel square; it is given no padding.
        window: which entries the convolution reads.
        beta: weight of the convolution's output.
    """

    own_weight: float = 1.0
    previous_weight: float = 0.0
    conv: nn.Conv2d | None = None
    window: Window | None = None
    beta: float = 0.0

    def __post_init__(self):
        """``above``, ``left``: rows up and columns left from an entry to the one that the kernel's first tap reads."""
        left, _, above, _ = (0,) * 4 if self.conv is None else self.window.margins(self.conv.kernel_size[0])
        object.__setattr__(self, "above", above)
        object.__setattr__(self, "left", left)
