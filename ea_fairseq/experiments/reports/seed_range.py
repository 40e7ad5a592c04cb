"""The range of scores over seeds of published trainings, with which a single training can be compared."""

from dataclasses import dataclass
from functools import cache

from ea_fairseq.experiments.reports.comparison import find_results
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.plain.project import PROJECT

PUBLISHED = PROJECT / "docs" / "results"


@dataclass(frozen=True)
class SeedRange:
    """The lowest and the highest score of several seeds.

    Args:
        seeds: how many.
        device: the one that they were trained on.
    """

    low: float
    high: float
    seeds: int
    device: str

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}"

    @property
    def source(self) -> str:
        """A sentence that explains the range."""
        return (
            f"the lowest and the highest score of {self.seeds} trainings by this recipe that differ in the seed, on "
            f"{self.device}; docs/results.md has all of them."
        )


def seed_range(results: Results, score: str) -> SeedRange | None:
    """Returns the range of published trainings of the same recipe, model and data; None if there are fewer than two."""
    alike = [found for found in published() if is_alike(found, results) and score in found.scores]
    by_seed = {found.seed: found for found in alike}  # several sections may show one training
    if len(by_seed) < 2:
        return None
    scores = [found.scores[score].score for found in by_seed.values()]
    return SeedRange(min(scores), max(scores), len(scores), alike[0].training_device or alike[0].device)


def is_alike(one: Results, other: Results) -> bool:
    """Whether trainings differ only in the seed."""
    return kind(one) == kind(other) and not one.differs_in(other)


def kind(results: Results) -> tuple[object, ...]:
    """What trainings that differ only in the seed have in common, in addition to their settings."""
    data = results.dataset
    return (
        results.recipe,
        results.model,  # has the flags that distinguish it from others of its recipe
        results.parameters,
        results.updates,
        results.search,
        data.subset,
        data.checksum,
    )


@cache
def published() -> list[Results]:
    """The results in docs/results; empty if the package was installed without them."""
    return find_results([PUBLISHED]) if PUBLISHED.is_dir() else []
