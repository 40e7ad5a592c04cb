"""Maps of series that have more steps than a page shows: means over blocks of steps."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ea_fairseq.attention.maps import STAGES, AttentionMaps


@dataclass(frozen=True)
class Blocks:
    """T steps in blocks of a size, the last of which may be smaller."""

    steps: int
    size: int

    @classmethod
    def of(cls, steps: int, most: int) -> "Blocks":
        """The smallest blocks of which there are no more than ``most``."""
        return cls(steps, -(-steps // most))

    @property
    def names(self) -> list[str]:
        """The number of each step or, of a block, of its first and last."""
        firsts = range(1, self.steps + 1, self.size)
        lasts = [min(first + self.size - 1, self.steps) for first in firsts]
        return [str(first) if first == last else f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]

    def maps(self, maps: AttentionMaps) -> AttentionMaps:
        """Means over blocks of T queries and T keys of what queries may see; hidden is where they see nothing."""
        if self.size == 1:
            return maps
        seen = maps.own.isfinite()
        shares = self.means(seen)
        hidden = {"probabilities": 0.0}  # of all other stages -inf

        def mean(stage: str) -> Tensor:
            sums = self.means(getattr(maps, stage).masked_fill(~seen, 0))
            return (sums / shares).masked_fill(shares == 0, hidden.get(stage, -torch.inf))

        return replace(maps, **{stage: mean(stage) for stage in STAGES}, queries=self.names, keys=self.names)

    def means(self, maps: Tensor) -> Tensor:
        """(K, T, S) to means over blocks, those at the edge over the entries that are there."""
        return avg_pool2d(maps.double().unsqueeze(0), self.size, ceil_mode=True, count_include_pad=False).squeeze(0)

    def series(self, values: np.ndarray) -> np.ndarray:
        """A series (T, C) to the means of its blocks (B, C)."""
        firsts = np.arange(0, self.steps, self.size)
        counts = np.minimum(self.size, self.steps - firsts)
        return np.add.reduceat(values, firsts) / counts[:, None]
