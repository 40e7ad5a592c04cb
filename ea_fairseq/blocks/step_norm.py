"""Batch norm of time series of unequal lengths."""

import torch
from torch import Tensor, nn


class StepNorm(nn.BatchNorm1d):
    """Batch norm whose means and variances are those of real steps: padding changes neither them nor the output."""

    def forward(self, x: Tensor, padded: Tensor | None) -> Tensor:
        """(T, B, C) -> (T, B, C); in training zero at padding.

        Args:
            padded: (B, T), true at padding.
        """
        if padded is None or not self.training:
            return super().forward(x.flatten(0, 1)).view_as(x)
        real, output = ~padded.T, torch.zeros_like(x)
        output[real] = super().forward(x[real])
        return output
