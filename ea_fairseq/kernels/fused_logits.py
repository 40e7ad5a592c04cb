"""What a mechanism lets kernels compute between the scores of an attention and its softmax."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ea_fairseq.kernels.window import Window


@dataclass(frozen=True)
class Convolution:
    """What kernels read of a convolution: weight (K, K, k, k), bias (K), and the size (k, k)."""

    weight: Tensor
    bias: Tensor
    kernel_size: tuple[int, int]


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
        learned: ``LearnedWeights`` by head, in the place of these; kernels must be given what :meth:`folded` returns.
    """

    own_weight: float = 1.0
    previous_weight: float = 0.0
    conv: nn.Conv2d | Convolution | None = None
    window: Window | None = None
    beta: float = 0.0
    learned: nn.Module | None = None

    def __post_init__(self):
        """``above``, ``left``: rows up and columns left from an entry to the one that the kernel's first tap reads."""
        left, _, above, _ = (0,) * 4 if self.conv is None else self.window.margins(self.conv.kernel_size[0])
        object.__setattr__(self, "above", above)
        object.__setattr__(self, "left", left)

    def folded(self, has_previous: bool) -> tuple[Tensor, Tensor | None, "FusedLogits"]:
        """The same logits by weights that all heads share, as kernels know them.

        logits = (mixed' + relu(conv'(mixed'))) / 2 for mixed' = 2 (1 - beta) * mixed: conv' divides what it reads of a
        head by its 2 (1 - beta), and multiplies what it writes by 2 beta.

        Returns:
            What own logits and previous ones are to be multiplied by, (K, 1, 1), None where there are no previous ones
            or their weight is 0; and what kernels compute of both.
        """
        alpha, beta = self.learned.alpha, self.learned.beta
        conv, kept = None, torch.ones_like(beta if alpha is None else alpha)
        if beta is not None:
            kept = 2 * self.learned.rest
            weight = self.conv.weight * (2 * beta.unsqueeze(-1) / kept.view(1, -1, 1, 1))
            conv = Convolution(weight, self.conv.bias * (2 * beta.flatten()), self.conv.kernel_size)
        folded = FusedLogits(1.0, 0.0 if alpha is None else 1.0, conv, self.window, 0.5)
        if alpha is None or not has_previous:
            return kept, None, folded
        return kept * (1 - alpha), kept * alpha, folded
