"""How fast models train and translate beside fairseq's Transformer of the same size."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.benchmark.cases import EVOLVING, PLAIN
from experiments.benchmark.results import Benchmark
from experiments.tables import NONE

NAME = "speed.json"
PARTS = ("training", "generation")


@dataclass(frozen=True)
class RelativeSpeed:
    """Ratios of speed of one benchmark.

    Args:
        ratios: medians of the first case of each of PARTS, by the name of a model.
        note: what was measured.
    """

    ratios: dict[str, list[str]]
    note: str
    header: ClassVar[list[str]] = [f"{part} speed" for part in PARTS]

    @classmethod
    def read(cls, path: Path) -> "RelativeSpeed":
        """From what benchmark.py wrote; raises StepError, naming the file, where it is something else."""
        benchmark, ratios = Benchmark.read(path), {}
        firsts = [next(iter(benchmark.of(part)), None) for part in PARTS]
        measured = [found for found in firsts if found]
        for found in measured:
            for variant in found.variants:
                if variant in (PLAIN, EVOLVING.of_family(variant.family)):
                    family = "transformer" if variant == PLAIN else variant.family
                    speeds = ratios.setdefault(f"{family}_{found.case.size}", [NONE] * len(PARTS))
                    speeds[firsts.index(found)] = f"{found.speed(variant.name).median:.2f}"
        cases = "; ".join(f"{found.case.part}: {found.case.title}" for found in measured)
        threads = benchmark.settings.threads
        hardware = f"{', '.join(benchmark.hardware)}, {threads} thread{'s' * (threads > 1)}"
        note = "speed: words a second, fairseq's Transformer in the same run being 1; medians of {} rounds ({}), on {}."
        return cls(ratios, note.format(benchmark.settings.rounds, cases, hardware))

    def of(self, model: str) -> list[str]:
        """The ratios of a model, by parts."""
        return self.ratios.get(model, [NONE] * len(PARTS))
