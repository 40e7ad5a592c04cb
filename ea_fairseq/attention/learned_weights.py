"""Learned weights of the skip connection and of the convolution, for each head (in no paper)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ea_fairseq.attention.by_word import ByWord
from ea_fairseq.kernels.fused_logits import FusedLogits


class LearnedWeights(nn.Module):
    """alpha and beta of each of K heads, sigmoids of parameters (K, 1, 1); None if an attention has none.

    Args:
        alpha, beta: initial values below 1; 0 for none.
        channels: C of words, if the weights also depend on them: sigmoid(a_h + w_h . x_t), w_h zero at the start;
            0 if not.
    """

    def __init__(self, heads: int, alpha: float, beta: float, channels: int = 0):
        super().__init__()
        self.alpha_logits, self.beta_logits = (
            nn.Parameter(torch.full((heads, 1, 1), start).logit()) if start else None for start in (alpha, beta)
        )
        self.by_input = channels > 0
        self.alpha_input, self.beta_input = (
            ByWord(channels, heads, start=nn.init.zeros_) if start and channels else None for start in (alpha, beta)
        )

    def weight(self, name: str, x: Tensor) -> Tensor:
        """Returns alpha or beta by name, (K, 1, 1), or (B, K, T, 1) if they depend on the words x (T, B, C)."""
        logits, by_word = getattr(self, f"{name}_logits"), getattr(self, f"{name}_input")
        return (logits if by_word is None else logits + by_word(x)).sigmoid()

    def of(self, name: str) -> list[nn.Parameter]:
        """The parameters of alpha or of beta."""
        return [parameter for found, parameter in self.named_parameters() if found.startswith(name)]

    def fused(self, fixed: FusedLogits, x: Tensor | None = None) -> FusedLogits:
        """Returns what kernels may compute, with the current weights of heads instead of fixed ones.

        Args:
            x: words (T, B, C), if the weights are to depend on them.
        """
        alpha, beta = (self.weight_of_kernels(name, x) for name in ("alpha", "beta"))
        return FusedLogits(1 - alpha, alpha, fixed.conv, fixed.window, beta)

    def weight_of_kernels(self, name: str, x: Tensor | None) -> float | Tensor:
        """Returns alpha or beta, (K), or (B, K, T) if they depend on words x; 0 if there is none."""
        logits = getattr(self, f"{name}_logits")
        if logits is None:
            return 0.0
        if x is None or not self.by_input:
            return logits.sigmoid().flatten()
        return self.weight(name, x).squeeze(-1)

    def means(self) -> dict[str, Callable[[], float]]:
        """Functions that measure the mean over the heads of alpha and of beta, without what words add to them."""
        there = {"alpha": self.alpha_logits, "beta": self.beta_logits}
        return {name: partial(mean, logits) for name, logits in there.items() if logits is not None}


def mean(logits: Tensor) -> float:
    """The mean over the heads of a learned weight, from its logits."""
    return logits.sigmoid().mean().item()
