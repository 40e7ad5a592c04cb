"""What a mechanism lets kernels compute between the scores of an attention and its softmax."""

from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor, nn

from ea_fairseq.kernels.window import Window


@dataclass(frozen=True, eq=False)
class FusedLogits:
    """What a mechanism lets kernels compute of scaled scores.

    mixed = own_weight * scores + previous_weight * previous, zero where masked; just ``scores`` where there are no
    previous logits or their weight is the number 0. Then logits = (1 - beta) * mixed + beta * relu(conv(mixed));
    without ``conv`` just ``mixed``.

    Args:
        own_weight, previous_weight: of this layer's scores and of the logits of the layer below; a number for all heads
            or a tensor, (K) or with weights of the query's word (B, K, T), which may take a gradient.
        conv: K heads to K heads, with a bias, its kernel square; it is given no padding.
        window: which entries the convolution reads.
        beta: weight of the convolution's output, also a number or such a tensor.
        above, left: rows up and columns left from an entry to the one that the kernel's first tap reads.
    """

    own_weight: float | Tensor = 1.0
    previous_weight: float | Tensor = 0.0
    conv: nn.Conv2d | None = None
    window: Window | None = None
    beta: float | Tensor = 0.0
    above: int = field(default=0, init=False)
    left: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.conv is not None and self.window is not None:
            left, _, above, _ = self.window.padding(self.conv.kernel_size[0])
            object.__setattr__(self, "above", above)
            object.__setattr__(self, "left", left)

    @property
    def has_skip(self) -> bool:
        """Whether logits of the layer below are read."""
        return isinstance(self.previous_weight, Tensor) or self.previous_weight != 0

    @property
    def is_by_word(self) -> bool:
        """Whether weights differ from word to word."""
        return any(isinstance(weight, Tensor) and weight.dim() == 3 for weight in (self.previous_weight, self.beta))

    @property
    def is_plain(self) -> bool:
        """Whether logits are the scores."""
        is_weighted = isinstance(self.own_weight, Tensor) or self.own_weight != 1
        return not is_weighted and not self.has_skip and self.conv is None

    @cached_property
    def settings(self) -> tuple:
        """All fields but tensors: those that do not change with the parameters of a model."""
        return tuple(value for value in vars(self).values() if not isinstance(value, Tensor))
