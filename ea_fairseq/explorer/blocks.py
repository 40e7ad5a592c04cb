"""Reduces maps of series with more steps than a page shows to means over blocks of steps."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ea_fairseq.attention.maps import STAGES, AttentionMaps


@dataclass(frozen=True)
class Blocks:
    """T steps divided into blocks of a size; the last block may be smaller."""

    steps: int
    size: int

    @classmethod
    def of(cls, steps: int, most: int) -> "Blocks":
        """The smallest block size that gives at most ``most`` blocks."""
        return cls(steps, -(-steps // most))

    @property
    def names(self) -> list[str]:
        """The number of each block's step, or of its first and last step."""
        firsts = range(1, self.steps + 1, self.size)
        lasts = [min(first + self.size - 1, self.steps) for first in firsts]
        return [str(first) if first == last else f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]

    def maps(self, maps: AttentionMaps) -> AttentionMaps:
        """Means over blocks of T queries and T keys, of visible entries only; a block without any is hidden."""
        if self.size == 1:
            return maps
        seen = maps.own.isfinite()
        shares = self.means(seen)
        hidden = {"probabilities": 0.0}  # -inf in all other stages

        def mean(stage: str) -> Tensor:
            sums = self.means(getattr(maps, stage).masked_fill(~seen, 0))
            return (sums / shares).masked_fill(shares == 0, hidden.get(stage, -torch.inf))

        return replace(maps, **{stage: mean(stage) for stage in STAGES}, queries=self.names, keys=self.names)

    def means(self, maps: Tensor) -> Tensor:
        """Averages (K, T, S) over blocks; at the edge, over the entries that exist."""
        return avg_pool2d(maps.double().unsqueeze(0), self.size, ceil_mode=True, count_include_pad=False).squeeze(0)

    def series(self, values: np.ndarray) -> np.ndarray:
        """Averages a series (T, C) over its blocks, to (B, C)."""
        firsts = np.arange(0, self.steps, self.size)
        counts = np.minimum(self.size, self.steps - firsts)
        return np.add.reduceat(values, firsts) / counts[:, None]
