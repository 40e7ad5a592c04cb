"""Weights of skip connection and convolution that are learned, one for each head; in no paper."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ea_fairseq.kernels.fused_logits import FusedLogits


class LearnedWeights(nn.Module):
    """alpha and beta of each of K heads, sigmoids of parameters (K, 1, 1); None where an attention has none.

    Args:
        alpha, beta: numbers below 1 to start at, 0 for none.
    """

    def __init__(self, heads: int, alpha: float, beta: float):
        super().__init__()
        self.alpha_logits, self.beta_logits = (
            nn.Parameter(torch.full((heads, 1, 1), start).logit()) if start else None for start in (alpha, beta)
        )

    @property
    def alpha(self) -> Tensor | None:
        """(K, 1, 1), of the previous layer's logits."""
        return None if self.alpha_logits is None else self.alpha_logits.sigmoid()

    @property
    def beta(self) -> Tensor | None:
        """(K, 1, 1), of the convolution's output."""
        return None if self.beta_logits is None else self.beta_logits.sigmoid()

    def fused(self, fixed: FusedLogits) -> FusedLogits:
        """What kernels compute: as with fixed weights, but by these, as they are now."""
        alpha, beta = (0.0 if weight is None else weight.flatten() for weight in (self.alpha, self.beta))
        return FusedLogits(1 - alpha, alpha, fixed.conv, fixed.window, beta)

    def means(self) -> dict[str, Callable[[], float]]:
        """The functions that measure the mean over the heads, by the names alpha and beta of what there is."""
        there = {"alpha": self.alpha_logits, "beta": self.beta_logits}
        return {name: partial(mean, logits) for name, logits in there.items() if logits is not None}


def mean(logits: Tensor) -> float:
    """The mean over the heads of a learned weight, of which these are the logits."""
    return logits.sigmoid().mean().item()
