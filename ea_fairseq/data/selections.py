"""Selections of the pairs of a text."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from ea_fairseq.data.text_folder import Pair


class Selection(Protocol):
    """A choice of some pairs, in their order."""

    reason: str  # why the others are dropped

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """Yields the chosen ones of ``total`` pairs."""


@dataclass(frozen=True)
class Sample:
    """``size`` pairs drawn at random without replacement, each set of pairs equally likely (selection sampling)."""

    size: int
    seed: int
    reason = "not sampled"

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """Yields the drawn ones of ``total`` pairs: all of them where ``size`` is larger."""
        draw, wanted = random.Random(self.seed), min(self.size, total)
        for left, pair in zip(range(total, 0, -1), pairs, strict=True):
            if draw.random() * left < wanted:
                wanted -= 1
                yield pair


@dataclass(frozen=True)
class EveryNth:
    """Every n-th pair, or with ``others`` all but these."""

    n: int
    others: bool = False
    reason = "in the other split"

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """Yields the chosen pairs; their total does not matter."""
        return (pair for number, pair in zip(count(1), pairs) if (number % self.n > 0) == self.others)
