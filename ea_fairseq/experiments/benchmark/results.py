"""What ea-fairseq benchmark finds, in one JSON file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.samples import Round, Sample, Spread, disturbance, speed
from ea_fairseq.plain.records import MEGABYTE, read_json
from ea_fairseq.plain.whole_files import write_whole

MADE_BY = "scripts/benchmark.py"
LARGEST = 100 * MEGABYTE


@dataclass(frozen=True)
class Cost:
    """What a step costs apart from time.

    Args:
        peak: bytes of memory at most, beyond those of a process that has imported everything.
        operations: that are no views, in a step; None of a generation.
        saved: bytes kept for the backward pass, without parameters; None of a generation.
        one_map: bytes of an attention map of K N N elements for each sentence, in single precision.
    """

    peak: int
    operations: int | None
    saved: int | None
    one_map: int

    def of_update(self) -> tuple[int, int]:
        """Bytes saved and operations of a step that has a backward pass."""
        assert self.saved is not None and self.operations is not None
        return self.saved, self.operations


@dataclass(frozen=True)
class Measurement:
    """What was found of one case.

    Args:
        words: of the target, padding left out, that each variant's step works on; in a block, with padding.
        rounds: those that count.
        disturbed: rounds in which others took more of the processor than was allowed.
        left_out: why variants are missing, by their names.
    """

    case: Case
    variants: list[Variant]
    words: int
    costs: dict[str, Cost]
    rounds: list[Round]
    disturbed: int
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the variants, in their order."""
        return [variant.name for variant in self.variants]

    def seconds(self, name: str) -> Spread:
        """The spread of a variant's seconds for one step, over the rounds."""
        return Spread.of(taken[name].seconds for taken in self.rounds)

    @property
    def baseline(self) -> str:
        """The first variant, with which the others are compared."""
        return self.variants[0].name

    def speed(self, name: str, baseline: str | None = None) -> Spread:
        """How many times as fast as another variant, by default the baseline."""
        return speed(self.rounds, name, baseline or self.baseline)

    def disturbed_that_count(self, limit: float) -> int:
        """Rounds that count, for want of others, although they were disturbed."""
        return sum(disturbance(taken) > limit for taken in self.rounds)


@dataclass
class Benchmark:
    """A run of ea-fairseq benchmark.

    Args:
        hardware: processor and GPUs.
        quick: whether it is a trial, with few cases and rounds.
        started: date and time.
    """

    command: str
    commit: str | None
    versions: dict[str, str]
    hardware: list[str]
    settings: Settings
    quick: bool
    started: str
    made_by: str = MADE_BY
    measurements: list[Measurement] = field(default_factory=list)

    def of(self, *parts: str) -> list[Measurement]:
        """The measurements of some parts."""
        return [found for found in self.measurements if found.case.part in parts]

    def timed(self, part: str) -> list[Measurement]:
        """The measurements of a part that were timed, not only counted."""
        return [found for found in self.of(part) if found.rounds]

    def write(self, path: Path) -> None:
        """Writes all of it, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Benchmark":
        """
        Raises:
            UserError: naming the file, where it is not what ea-fairseq benchmark writes.
        """
        try:
            found: Any = read_json(path, LARGEST)
            settings = Settings(**found["settings"])
            measurements = [as_measurement(**measurement) for measurement in found["measurements"]]
            return cls(**found | {"settings": settings, "measurements": measurements})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is not what {MADE_BY} writes ({error}): measure again.") from None


def as_measurement(case: dict, variants: list, costs: dict, rounds: list, **others: Any) -> Measurement:
    """A measurement from what JSON has of it."""
    return Measurement(
        case=Case(**case),
        variants=[as_variant(**variant) for variant in variants],
        costs={name: Cost(**cost) for name, cost in costs.items()},
        rounds=[{name: Sample(*sample) for name, sample in taken.items()} for taken in rounds],
        **others,
    )


def as_variant(native_bf16: bool = False, **fields: Any) -> Variant:
    """A variant from what JSON has of it; files from before ``precision`` have ``native_bf16`` instead."""
    return Variant(**{"precision": "bfloat16" if native_bf16 else "", **fields})


def is_benchmark(path: Path) -> bool:
    """Whether ea-fairseq benchmark wrote a file."""
    try:
        found = read_json(path, LARGEST) if path.is_file() else None
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("made_by") == MADE_BY
