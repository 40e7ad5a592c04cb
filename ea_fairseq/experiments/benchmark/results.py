"""The results of ea-fairseq benchmark, in one JSON file."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.samples import Round, Spread, speed
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.records import MEGABYTE, as_record, read_json, written_by

MADE_BY = "scripts/benchmark.py"
LARGEST = 100 * MEGABYTE


@dataclass(frozen=True)
class Cost:
    """The costs of a step apart from time.

    Args:
        peak: maximum memory in bytes, less that of a process that has imported everything.
        operations: in a step, without views; None for a search.
        saved: bytes kept for the backward pass, without parameters; None for a search.
        one_map: bytes of an attention map of K N N elements for each sentence, in single precision.
    """

    peak: int
    operations: int | None
    saved: int | None
    one_map: int

    def of_update(self) -> tuple[int, int]:
        """Returns the bytes saved and the operations of a step that has a backward pass."""
        assert self.saved is not None and self.operations is not None
        return self.saved, self.operations


@dataclass(frozen=True)
class Measurement:
    """The results of one case.

    Args:
        words: target words that each variant's step processes, without padding; a block counts padding, too.
        rounds: the rounds that count.
        disturbed: number of rounds in which others took more of the processor than was allowed.
        left_out: for each missing variant, by its name, the reason.
    """

    case: Case
    variants: list[Variant]
    words: int
    costs: dict[str, Cost]
    rounds: list[Round]
    disturbed: int
    left_out: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises ValueError if tables cannot be made from these samples."""
        if any(taken.keys() != {*self.names} for taken in self.rounds):
            raise ValueError("'rounds' must have a sample of each variant")
        if not all(0 < sample.seconds < math.inf for taken in self.rounds for sample in taken.values()):
            raise ValueError("'seconds' must be positive")

    @property
    def names(self) -> list[str]:
        """The names of the variants, in their order."""
        return [variant.name for variant in self.variants]

    def seconds(self, name: str) -> Spread:
        """Returns the spread of a variant's seconds per step over the rounds."""
        return Spread.of(taken[name].seconds for taken in self.rounds)

    @property
    def baseline(self) -> str:
        """The first variant, with which the others are compared."""
        return self.variants[0].name

    def speed(self, name: str, baseline: str | None = None) -> Spread:
        """Returns how many times as fast a variant is as another, by default the baseline."""
        return speed(self.rounds, name, baseline or self.baseline)


@dataclass
class Benchmark:
    """A run of ea-fairseq benchmark.

    Args:
        hardware: processor and GPUs.
        quick: whether it is a trial, with few cases and rounds.
        started: date and time of the start.
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
        """Returns the measurements of some parts."""
        return [found for found in self.measurements if found.case.part in parts]

    def timed(self, part: str) -> list[Measurement]:
        """Returns the measurements of a part that were timed."""
        return [found for found in self.of(part) if found.rounds]

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Benchmark":
        """
        Raises:
            UserError: naming the file, if ea-fairseq benchmark did not write it.
        """
        with written_by(MADE_BY, path, "measure again"):
            found = as_record(cls, read_json(path, LARGEST))
            for measurement in found.measurements:
                measurement.check()
            return found


def is_benchmark(path: Path) -> bool:
    """Whether ea-fairseq benchmark wrote a file."""
    try:
        found = read_json(path, LARGEST) if path.is_file() else None
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("made_by") == MADE_BY
