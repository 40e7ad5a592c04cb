"""Numbers as native search rounds them before it multiplies by weights."""

import torch


def rounded(x: torch.Tensor, precision: str) -> torch.Tensor:
    """Rows (..., inputs) in float64; in int8 they are multiples of 1/127 of their largest absolute value."""
    if precision == "bfloat16":
        return x.bfloat16().double()
    scale = (x.abs().amax(dim=-1, keepdim=True) / 127).double()
    return torch.where(scale == 0, 0.0, (x / scale).round() * scale)
