"""How benchmark.py takes samples, rejects disturbed ones, and what it makes of the rest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.experiments.benchmark.bench import TICKS, Reading, busy_seconds
from ea_fairseq.experiments.benchmark.samples import Sample, Spread, disturbance, numbers_outside, speed, take_rounds
from ea_fairseq.experiments.benchmark.tables import exponent

LIMIT = 0.06
SECONDS = st.floats(1e-3, 1e3)
ROUNDS = st.lists(
    st.fixed_dictionaries({name: st.builds(Sample, SECONDS, st.just(0.0)) for name in "ab"}), min_size=1, max_size=12
)
STAT = """cpu  99 99 99 99 99 99 99 99 99 99
cpu0 100 20 30 4000 500 6 7 80 9 0
cpu1 1 2 3 4 5 6 7 8 9 0
cpu10 1000 0 0 0 0 0 0 0 0 0
intr 5 5 5 5
"""


def test_busy_is_what_is_not_idle_on_the_allowed_cores():
    first, second = (100 + 20 + 30 + 6 + 7 + 80) / TICKS, (1 + 2 + 3 + 6 + 7 + 8) / TICKS
    assert busy_seconds(STAT, {0}) == pytest.approx(first)
    assert busy_seconds(STAT, {0, 1}) == pytest.approx(first + second)


@given(own=st.floats(0, 8), others=st.floats(0, 8), wall=st.floats(0.1, 4), cores=st.integers(1, 64))
def test_others_have_what_is_busy_and_not_ones_own(own, others, wall, cores):
    before = Reading(wall=100, own=50, busy=1000, cores=cores)
    after = Reading(wall=100 + wall, own=50 + own, busy=1000 + own + others, cores=cores)
    assert before.taken_by_others(after) == pytest.approx(others / wall / cores, abs=1e-9)


def test_a_clock_of_coarse_ticks_does_not_make_a_share_negative():
    assert Reading(0, 0, 0, 2).taken_by_others(Reading(1, 1.004, 1.0, 2)) == 0


def test_this_process_is_not_among_the_others():
    before = Reading.now()
    while (after := Reading.now()).own - before.own < 0.05:
        pass
    assert after.busy - before.busy >= after.own - before.own - 2 / TICKS
    assert after.cores >= 1


class Machine:
    """Samples of variants that take the processor in shares given by round."""

    def __init__(self, names: str, shares: list[float]):
        self.names, self.shares, self.asked = names, shares, []

    def samplers(self):
        return {name: lambda name=name: self.sample(name) for name in self.names}

    def sample(self, name: str) -> Sample:
        number = len(self.asked) // len(self.names)
        self.asked.append(name)
        return Sample(float(number + 1), self.shares[number] if name == self.names[-1] else 0.0)


def numbers(rounds) -> list[int]:
    return [int(taken["a"].seconds) for taken in rounds]


def test_variants_take_turns_forth_and_back():
    machine = Machine("abc", [0.0] * 3)
    rounds, disturbed = take_rounds(machine.samplers(), 3, LIMIT, attempts=2)
    assert "".join(machine.asked) == "abccbaabc"
    assert numbers(rounds) == [1, 2, 3]
    assert disturbed == 0


def test_a_round_with_one_disturbed_sample_is_repeated_as_a_whole():
    machine = Machine("ab", [0.0, 0.5, LIMIT, 0.07, 0.0, 0.0])
    rounds, disturbed = take_rounds(machine.samplers(), 3, LIMIT, attempts=3)
    assert numbers(rounds) == [1, 3, 5]
    assert disturbed == 2
    assert all(set(taken) == {"a", "b"} for taken in rounds)
    assert len(machine.asked) == 2 * 5


def test_after_as_many_rounds_as_are_allowed_the_least_disturbed_count():
    machine = Machine("ab", [0.9, 0.0, 0.3, 0.2, 0.8, 0.7])
    rounds, disturbed = take_rounds(machine.samplers(), 3, LIMIT, attempts=2)
    assert numbers(rounds) == [2, 3, 4]
    assert disturbed == 5
    assert [disturbance(taken) > LIMIT for taken in rounds] == [False, True, True]


@given(ROUNDS)
def test_swapping_sides_inverts_the_ratio_and_its_interval(rounds):
    forth, back = speed(rounds, "a", "b"), speed(rounds, "b", "a")
    assert back.median == pytest.approx(1 / forth.median)
    assert (back.low, back.high) == pytest.approx((1 / forth.high, 1 / forth.low))


@given(ROUNDS, st.lists(st.floats(0.1, 10), min_size=12, max_size=12))
def test_what_slows_a_whole_round_changes_no_ratio(rounds, slower):
    slowed = [
        {name: Sample(sample.seconds * factor, 0.0) for name, sample in taken.items()}
        for taken, factor in zip(rounds, slower, strict=False)
    ]
    found, expected = speed(slowed, "a", "b"), speed(rounds, "a", "b")
    assert (found.median, found.low, found.high) == pytest.approx((expected.median, expected.low, expected.high))


def test_twice_as_fast_is_two():
    rounds = [{"plain": Sample(seconds, 0.0), "ours": Sample(seconds / 2, 0.0)} for seconds in (1.0, 3.0, 2.0)]
    assert speed(rounds, "ours", "plain") == Spread(2, 2, 2)


@given(st.lists(SECONDS, min_size=1, max_size=30))
def test_a_spread_holds_its_median(numbers):
    found = Spread.of(numbers)
    assert min(numbers) <= found.low <= found.median * (1 + 1e-12)
    assert found.median <= found.high * (1 + 1e-12) <= max(numbers) * (1 + 1e-11)
    assert Spread.of(reversed(numbers)) == found


@pytest.mark.parametrize("count", range(1, 40))
def test_the_interval_is_the_narrowest_with_its_confidence(count):
    """It misses a median where fewer than ``outside + 1`` of the numbers lie on one side: a coin's falls."""

    def missed(outside: int) -> float:
        return 2 * sum(math.comb(count, heads) for heads in range(outside + 1)) / 2**count

    outside = numbers_outside(count)
    assert outside == 0 or missed(outside) <= 0.05
    assert missed(outside + 1) > 0.05
    assert (missed(0) <= 0.05) == (count >= 6)


@given(power=st.floats(-3, 3), factor=st.floats(0.1, 10))
def test_a_power_law_has_its_exponent(power, factor):
    points = {length: factor * length**power for length in (128, 256, 512, 1024)}
    assert exponent(points) == pytest.approx(power, abs=1e-9)
