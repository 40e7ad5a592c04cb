"""Timing samples, and statistics of rounds of samples."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

CONFIDENCE = 0.95


class Sample(NamedTuple):
    """Seconds of one step, and the share of the processor that other processes took meanwhile."""

    seconds: float
    others: float


Round = dict[str, Sample]  # one sample of each variant, by its name, taken in turn


def disturbance(taken: Round) -> float:
    """Returns the largest share of the processor that others took during a sample."""
    return max(sample.others for sample in taken.values())


def take_rounds(
    samplers: Mapping[str, Callable[[], Sample]], wanted: int, limit: float, attempts: int
) -> tuple[list[Round], int]:
    """Samples each variant in turn, in the reverse order every second round.

    A round is rejected and repeated if others took more than ``limit`` of the processor. At most ``attempts`` times
    ``wanted`` rounds are taken; if too few are undisturbed, the least disturbed ones count, too.

    Returns:
        The rounds that count, in the order in which they were taken, and how many of all rounds were disturbed.
    """
    rounds: list[Round] = []
    clean = 0
    for number in range(wanted * attempts):
        if clean == wanted:
            break
        names = list(samplers)[:: -1 if number % 2 else 1]
        rounds.append({name: samplers[name]() for name in names})
        clean += disturbance(rounds[-1]) <= limit
    least = sorted(rounds, key=lambda taken: (disturbance(taken) > limit, disturbance(taken)))[:wanted]
    return [taken for taken in rounds if any(taken is kept for kept in least)], len(rounds) - clean


@dataclass(frozen=True)
class Spread:
    """Median of positive numbers, and an interval around it.

    Args:
        median: if their number is even, the geometric mean of the middle two.
        low, high: the 95% confidence interval of the median by the sign test, for any distribution; with fewer than
            six numbers, which are too few for it, the lowest and the highest.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Spread":
        """Computes the median and the interval of ranks around it; see numbers_outside."""
        ordered = sorted(numbers)
        last = len(ordered) - 1
        outside = numbers_outside(len(ordered))
        median = math.sqrt(ordered[last // 2] * ordered[len(ordered) // 2])
        return cls(median, ordered[outside], ordered[last - outside])

    def inverse(self) -> "Spread":
        """Returns the spread of 1 / x."""
        return Spread(1 / self.median, 1 / self.high, 1 / self.low)

    def times(self, factor: float) -> "Spread":
        """Returns the spread of factor * x."""
        return Spread(factor * self.median, factor * self.low, factor * self.high)


def numbers_outside(count: int) -> int:
    """Returns how many numbers, on either side, are outside the interval of a median."""
    chances = accumulate(2 * math.comb(count, outside) / 2**count for outside in range((count + 1) // 2))
    return max(0, sum(chance <= 1 - CONFIDENCE for chance in chances) - 1)


def speed(rounds: Iterable[Round], variant: str, baseline: str) -> Spread:
    """Returns how many times as fast as the baseline a variant was, round by round."""
    return Spread.of(taken[baseline].seconds / taken[variant].seconds for taken in rounds)
