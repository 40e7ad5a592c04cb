"""Samples of time, and what rounds of them say."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

CONFIDENCE = 0.95


class Sample(NamedTuple):
    """Seconds of one step, and the share of the processor that others took meanwhile."""

    seconds: float
    others: float


Round = dict[str, Sample]  # one sample of each variant, by its name, taken one after the other


def disturbance(taken: Round) -> float:
    """The largest share that others took of any sample."""
    return max(sample.others for sample in taken.values())


def take_rounds(
    samplers: Mapping[str, Callable[[], Sample]], wanted: int, limit: float, attempts: int
) -> tuple[list[Round], int]:
    """Samples each variant in turn, forth in one round and back in the next.

    A round is rejected and repeated where others took more than ``limit`` of the processor, at most ``attempts`` times
    ``wanted`` rounds being taken; what is missing then is filled with those that were disturbed least.

    Returns:
        The rounds, in the order in which they were taken, and how many of all taken were disturbed.
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
        median: of an even number, the geometric mean of the middle two.
        low, high: with a confidence of 95%, the median of whatever distribution the numbers are from lies between
            (sign test); of fewer than six numbers, which cannot tell, the lowest and the highest.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Spread":
        """The median and an interval of ranks about it; see numbers_outside."""
        ordered = sorted(numbers)
        last = len(ordered) - 1
        outside = numbers_outside(len(ordered))
        median = math.sqrt(ordered[last // 2] * ordered[len(ordered) // 2])
        return cls(median, ordered[outside], ordered[last - outside])

    def inverse(self) -> "Spread":
        """The spread of 1 / x."""
        return Spread(1 / self.median, 1 / self.high, 1 / self.low)

    def times(self, factor: float) -> "Spread":
        """The spread of factor * x."""
        return Spread(factor * self.median, factor * self.low, factor * self.high)


def numbers_outside(count: int) -> int:
    """How many numbers, on either side, lie beyond the interval of a median."""
    chances = accumulate(2 * math.comb(count, outside) / 2**count for outside in range((count + 1) // 2))
    return max(0, sum(chance <= 1 - CONFIDENCE for chance in chances) - 1)


def speed(rounds: Iterable[Round], variant: str, baseline: str) -> Spread:
    """How many times as fast as the baseline a variant was, round by round."""
    return Spread.of(taken[baseline].seconds / taken[variant].seconds for taken in rounds)
