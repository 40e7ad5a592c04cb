"""Choices among the pairs of a text."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from text_folder import Pair


class Selection(Protocol):
    """A choice among pairs that keeps their order."""

    reason: str  # why the others are dropped

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """The pairs chosen out of `total` pairs."""


@dataclass(frozen=True)
class Sample:
    """A number of pairs drawn at random; each choice of that many pairs is equally likely."""

    size: int
    seed: int
    reason = "not sampled"

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """The pairs drawn out of `total` pairs."""
        draw, wanted = random.Random(self.seed), min(self.size, total)
        for left, pair in zip(range(total, 0, -1), pairs, strict=True):
            if draw.random() * left < wanted:
                wanted -= 1
                yield pair


@dataclass(frozen=True)
class EveryNth:
    """Every nth pair; the others where `others` is set."""

    n: int
    others: bool = False
    reason = "in the other split"

    def of(self, pairs: Iterator[Pair], total: int) -> Iterator[Pair]:
        """The pairs chosen."""
        return (pair for number, pair in zip(count(1), pairs) if (number % self.n > 0) == self.others)
