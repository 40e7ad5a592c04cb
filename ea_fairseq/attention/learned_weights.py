"""Learned weights of the skip connection and of the convolution, one for each head; they are in no paper."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ea_fairseq.kernels.fused_logits import FusedLogits


class LearnedWeights(nn.Module):
    """alpha and beta of each of K heads, sigmoids of parameters (K, 1, 1); None where an attention has none.

    Args:
        alpha, beta: initial values below 1; 0 for none.
    """

    def __init__(self, heads: int, alpha: float, beta: float):
        super().__init__()
        self.alpha_logits, self.beta_logits = (
            nn.Parameter(torch.full((heads, 1, 1), start).logit()) if start else None for start in (alpha, beta)
        )

    @property
    def alpha(self) -> Tensor | None:
        """The weight of the previous layer's logits, (K, 1, 1)."""
        return None if self.alpha_logits is None else self.alpha_logits.sigmoid()

    @property
    def beta(self) -> Tensor | None:
        """The weight of the convolution's output, (K, 1, 1)."""
        return None if self.beta_logits is None else self.beta_logits.sigmoid()

    def fused(self, fixed: FusedLogits) -> FusedLogits:
        """What kernels may compute, with the current weights instead of fixed ones."""
        alpha, beta = (0.0 if weight is None else weight.flatten() for weight in (self.alpha, self.beta))
        return FusedLogits(1 - alpha, alpha, fixed.conv, fixed.window, beta)

    def means(self) -> dict[str, Callable[[], float]]:
        """Functions that measure the mean over the heads of alpha and of beta, of those that are learned."""
        there = {"alpha": self.alpha_logits, "beta": self.beta_logits}
        return {name: partial(mean, logits) for name, logits in there.items() if logits is not None}


def mean(logits: Tensor) -> float:
    """The mean over the heads of a learned weight, from its logits."""
    return logits.sigmoid().mean().item()
