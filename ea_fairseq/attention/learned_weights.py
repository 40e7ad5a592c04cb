"""Weights of skip connection and convolution that are learned, one for each head; in no paper."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn


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

    @property
    def rest(self) -> Tensor | None:
        """(K, 1, 1), 1 - beta, of the convolution's input; 2**-30 at least, for kernels divide by it."""
        return None if self.beta_logits is None else (-self.beta_logits).sigmoid().clamp(min=2.0**-30)

    def means(self) -> dict[str, Callable[[], float]]:
        """The functions that measure the mean over the heads, by the names alpha and beta of what there is."""
        there = {"alpha": self.alpha_logits, "beta": self.beta_logits}
        return {name: partial(mean, logits) for name, logits in there.items() if logits is not None}


def mean(logits: Tensor) -> float:
    """The mean over the heads of a learned weight, of which these are the logits."""
    return logits.sigmoid().mean().item()
