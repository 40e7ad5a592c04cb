"""Root mean square norm: Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019."""

import torch
from torch import Tensor, nn

from ea_fairseq.kernels.cpu import DTYPES
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.norm import norm

EPSILON = 1e-6


class RMSNorm(nn.RMSNorm):
    """torch's norm of vectors (..., C), in native code if possible."""

    eps: float

    def __init__(self, width: int, eps: float = EPSILON):
        super().__init__(width, eps)

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) -> (..., C)"""
        if is_native(x, exact=False):
            # Under autocast, the output has the type of the products that read it, if native code can write that type.
            autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
            dtype = autocast if autocast in DTYPES else x.dtype
            return norm(x, self.weight.float().unsqueeze(0), None, 1, x.size(-1), self.eps, dtype)
        return super().forward(x)
