"""Batch norm of time series of unequal lengths."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StepNorm(nn.BatchNorm1d):
    """Batch norm whose means and variances are those of real steps: padding changes neither them nor the output."""

    def forward(self, x: Tensor, padded: Tensor | None) -> Tensor:  # type: ignore[override]
        """(T, B, C) -> (T, B, C); in training zero at padding.

        Args:
            padded: (B, T), true at padding.
        """
        if padded is None or not self.training:
            return self.normalized(x.flatten(0, 1)).view_as(x)
        real, output = ~padded.T, torch.zeros_like(x)
        output[real] = self.normalized(x[real])
        return output

    def normalized(self, x: Tensor) -> Tensor:
        """Steps (N, C) -> (N, C), by the running statistics where a batch has one step, which has no variance."""
        if self.training and len(x) == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)
