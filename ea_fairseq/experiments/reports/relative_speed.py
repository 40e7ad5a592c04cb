"""How fast models train and translate, relative to fairseq's Transformer of the same size."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ea_fairseq.experiments.benchmark.cases import EVOLVING, PLAIN, Case
from ea_fairseq.experiments.benchmark.results import Benchmark
from ea_fairseq.experiments.tables import NONE

NAMES = "speed*.json"
PARTS = ("training", "generation")


@dataclass(frozen=True)
class RelativeSpeed:
    """Speeds relative to fairseq's Transformer in the same run of a benchmark.

    Args:
        ratios: medians of the first case of each of PARTS, by the name of a model.
        notes: what was measured.
    """

    ratios: dict[str, list[str]]
    notes: list[str]
    header: ClassVar[list[str]] = [f"{part} speed" for part in PARTS]

    @classmethod
    def read(cls, paths: list[Path]) -> "RelativeSpeed":
        """Reads what ea-fairseq benchmark wrote; raises UserError naming the file if it is something else."""
        ratios: dict[str, list[str]] = {}
        notes = []
        for path in paths:
            benchmark = Benchmark.read(path)
            firsts = [next(iter(benchmark.of(part)), None) for part in PARTS]
            for column, found in enumerate(firsts):
                if found is None:
                    continue
                for variant in found.variants:
                    if variant in (PLAIN, EVOLVING.of_family(variant.family)):
                        family = "transformer" if variant == PLAIN else variant.family
                        speeds = ratios.setdefault(f"{family}_{found.case.size}", [NONE] * len(PARTS))
                        speeds[column] = f"{found.speed(variant.name).median:.2f}"
            notes.append(note_of(benchmark, [found.case for found in firsts if found]))
        return cls(ratios, [*dict.fromkeys(notes)])

    def of(self, model: str) -> list[str]:
        """The ratios of a model, by parts."""
        return self.ratios.get(model, [NONE] * len(PARTS))


def note_of(benchmark: Benchmark, cases: list[Case]) -> str:
    """Says how cases were measured."""
    threads = benchmark.settings.threads
    hardware = f"{', '.join(benchmark.hardware)}, {threads} thread{'s' * (threads > 1)}"
    measured = "; ".join(f"{case.part}: {case.title}" for case in cases)
    note = "speed: relative to fairseq's Transformer in the same run; medians of {} rounds ({}), on {}."
    return note.format(benchmark.settings.rounds, measured, hardware)
