"""What happens to queries and keys after their projection: norms of each head, and rotations by position.

Norms: Henry et al., Query-Key Normalization for Transformers, EMNLP Findings 2020, in the form used by language models
of 2025: a root mean square norm of each head. Rotations: Su et al., RoFormer: Enhanced Transformer with Rotary
Position Embedding, 2021.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.rms_norm import EPSILON, RMSNorm
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.norm import norm

BASE = 10_000  # of the angles' frequencies


class QueryKey(nn.Module):
    """Optionally normalizes queries and keys of each head, then optionally rotates them by their position.

    Args:
        width: elements d of a query or key of one head.
        normalizes: whether each is divided by its root mean square and multiplied by a weight (d,), shared by heads.
        rotates: whether elements i and i + d / 2 are rotated, as a pair, by an angle proportional to the position.

    Raises:
        UserError: if an odd number of elements would be rotated.
    """

    def __init__(self, width: int, normalizes: bool, rotates: bool):
        super().__init__()
        if rotates and width % 2:
            raise UserError(
                f"--relative-positions rope rotates pairs, but a head of {width} channels has none for the last"
            )
        self.width, self.rotates = width, rotates
        self.norms: Any = nn.ModuleDict({part: RMSNorm(width) for part in "qk"} if normalizes else {})

    def keep_only(self, parts: str) -> None:
        """Removes the norms of queries or keys that an attention does not have."""
        for part in self.norms.keys() - set(parts):
            del self.norms[part]

    def forward(self, projected: Tensor, widths: dict[str, int], inputs: Inputs) -> Tensor:
        """
        Args:
            projected: queries, keys and values side by side, (T, B, n C), or some of them.
            widths: the total width of all heads of each part in ``projected``, by its letter, in the order q, k, v.

        Returns:
            ``projected`` with queries and keys normalized and rotated.
        """
        turned = [part for part in widths if part in "qk"]
        table = rotations(inputs.positions[0], self.width) if self.rotates else None
        # One pass of native code, if it supports these tensors.
        if turned and is_native(projected, exact=False):
            weight = torch.stack([self.norms[part].weight for part in turned]).float() if self.norms else None
            table = None if table is None else table.float()
            vectors = sum(widths[part] for part in turned) // self.width
            return norm(projected, weight, table, vectors, self.width, EPSILON)
        # Queries and keys by head, (T, B, K, d): norms, then rotations.
        parts = dict(zip(widths, projected.split([*widths.values()], dim=-1), strict=True))
        for part in turned:
            x = parts[part].unflatten(-1, (-1, self.width))
            if self.norms:
                x = self.norms[part](x)
            if table is not None:
                x = rotate(x, table)
            parts[part] = x.flatten(-2).type_as(projected)
        return torch.cat([*parts.values()], dim=-1) if len(parts) > 1 else parts.popitem()[1]


def rotations(positions: Tensor, width: int) -> Tensor:
    """Cosines, then sines of p / 10,000^(2 i / d) for the d / 2 pairs i of a vector of ``width`` d (RoFormer eq. 15).

    Args:
        positions: p, (T,).

    Returns:
        (T, d), of float64.
    """
    exponents = torch.arange(width // 2, dtype=torch.float64, device=positions.device) / (width // 2)
    angles = positions.double().unsqueeze(1) / BASE**exponents
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotates the pairs of elements i and i + d / 2 of vectors x (T, B, K, d) by their angles (RoFormer eq. 34).

    Args:
        table: (T, d), see :func:`rotations`.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = table.to(dtype).view(-1, 1, 1, x.size(-1)).chunk(2, dim=-1)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
