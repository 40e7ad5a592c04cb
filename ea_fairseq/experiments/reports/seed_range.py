"""How far the scores of seeds lie apart, by which a single training is to be read: those of published ones like it."""

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
        device: that they were trained on.
    """

    low: float
    high: float
    seeds: int
    device: str

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}"

    @property
    def source(self) -> str:
        """A sentence."""
        return (
            f"the lowest and the highest score of {self.seeds} trainings by this recipe that differ in the seed, on "
            f"{self.device}; docs/results.md has all of them."
        )


def seed_range(results: Results, score: str) -> SeedRange | None:
    """That of the published trainings by the same recipe, of the same model and data; None without two of them."""
    alike = [found for found in published() if is_alike(found, results) and score in found.scores]
    by_seed = {found.seed: found for found in alike}  # several sections may show one training
    if len(by_seed) < 2:
        return None
    scores = [found.scores[score].score for found in by_seed.values()]
    return SeedRange(min(scores), max(scores), len(scores), alike[0].training_device or alike[0].device)


def is_alike(one: Results, other: Results) -> bool:
    """Whether trainings differ in the seed alone."""
    return kind(one) == kind(other) and not one.differs_in(other)


def kind(results: Results) -> tuple[object, ...]:
    """What trainings that differ in the seed alone have in common beside their settings."""
    data = results.dataset
    return (
        results.recipe,
        results.model,  # has the flags that tell it from others of its recipe
        results.parameters,
        results.updates,
        results.search,
        data.subset,
        data.checksum,
    )


@cache
def published() -> list[Results]:
    """The results in docs/results; none where the package was installed without them."""
    return find_results([PUBLISHED]) if PUBLISHED.is_dir() else []
