"""What happens to queries and keys after their projection: norms of each head, and rotations by position.

Norms: Henry et al., Query-Key Normalization for Transformers, EMNLP Findings 2020, in the form that language models of
2025 have: a root mean square norm of each head. Rotations: Su et al., RoFormer: Enhanced Transformer with Rotary
Position Embedding, 2021.
"""

import torch
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.errors import UserError

EPSILON = 1e-6  # of norms
BASE = 10_000  # of the angles' frequencies


class QueryKey(nn.Module):
    """Normalizes queries and keys of each head, if asked to, and then rotates them by their position, if asked to.

    Args:
        width: elements d of a query or key of one head.
        normalizes: whether each is divided by its root mean square and multiplied by a weight (d,), shared by heads.
        rotates: whether elements i and i + d / 2 are rotated, as a pair, by an angle proportional to the position.

    Raises:
        UserError: if elements that are rotated are an odd number.
    """

    def __init__(self, width: int, normalizes: bool, rotates: bool):
        super().__init__()
        if rotates and width % 2:
            raise UserError(
                f"--relative-positions rope rotates pairs, but a head of {width} channels has none for the last"
            )
        self.width, self.rotates = width, rotates
        self.norms = nn.ModuleDict({part: nn.RMSNorm(width, EPSILON) for part in "qk"} if normalizes else {})

    def keep_only(self, parts: str) -> None:
        """Removes the norms of queries or keys that an attention does not have."""
        for part in self.norms.keys() - set(parts):
            del self.norms[part]

    def forward(self, projected: Tensor, widths: dict[str, int], inputs: Inputs) -> Tensor:
        """
        Args:
            projected: queries, keys and values side by side, (T, B, n C), or some of them.
            widths: the total width of all heads of each that is there, by the letters q, k and v, in this order.

        Returns:
            The same, with queries and keys normalized and rotated.
        """
        parts = dict(zip(widths, projected.split([*widths.values()], dim=-1), strict=True))
        for part in widths.keys() & {"q", "k"}:
            x = parts[part].unflatten(-1, (-1, self.width))
            if self.norms:
                x = self.norms[part](x)
            if self.rotates:
                x = rotate(x, inputs.positions[0])
            parts[part] = x.flatten(-2).type_as(projected)
        return torch.cat([*parts.values()], dim=-1) if len(parts) > 1 else parts.popitem()[1]


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotates elements i and i + d / 2 of vectors x (T, B, K, d) by p / 10,000^(2 i / d) (RoFormer eq. 15, 34).

    Args:
        positions: p, (T,).
    """
    half = x.size(-1) // 2
    dtype = torch.promote_types(x.dtype, torch.float32)
    exponents = torch.arange(half, dtype=dtype, device=x.device) / half
    angles = (positions.to(dtype).unsqueeze(1) / BASE**exponents).view(-1, 1, 1, half)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.split(half, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
