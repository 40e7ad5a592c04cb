"""Trained models side by side: their results by model, data set and seed, and each model's baseline."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.consistency import (
    require_same_data,
    require_same_models,
    require_same_references,
    require_same_scores,
    require_score,
)
from ea_fairseq.experiments.reports.papers import PAPER
from ea_fairseq.experiments.scoring.results import NAME, RELEASED, Results
from ea_fairseq.experiments.scoring.task_scores import LOW_IS_GOOD

OF_TRANSLATIONS = "tokenized BLEU"
SAME_SIZE = 0.05  # relative difference that the parameters of models of one size may have


@dataclass(frozen=True)
class Comparison:
    """Results to compare.

    Args:
        by_seed: the results by seed, in the order of seeds, for each pair of names of a model and a data set.
        score: the name of the score that is compared; None for the first of each data set.
        baseline: the model that all others are compared with; by default, an evolving model is compared with the
            plain one of its size, if there is one.
    """

    by_seed: dict[tuple[str, str], dict[int, Results]]
    score: str | None
    baseline: str | None = None

    @classmethod
    def of(cls, results: Iterable[Results], score: str | None = None, baseline: str | None = None) -> "Comparison":
        """
        Args:
            score: by default tokenized BLEU or, for other results than translations, the first of each data set.

        Raises:
            UserError: if translations and other results are mixed, or results cannot be compared for another reason.
        """
        results = sorted(results, key=lambda result: (result.seed, str(result.folder)))
        of_tasks = [result for result in results if not result.translates]
        if 0 < len(of_tasks) < len(results):
            translation = next(result for result in results if result.translates)
            raise UserError(
                f"{translation.folder} is of translations and {of_tasks[0].folder} is not: report them apart."
            )
        score = score or (None if of_tasks else OF_TRANSLATIONS)
        by_seed: dict[tuple[str, str], dict[int, Results]] = {}
        for result in results:
            if score is not None:
                require_score(result, score)
            seeds = by_seed.setdefault((result.model, result.dataset.name), {})
            if result.seed in seeds:
                raise UserError(
                    f"{seeds[result.seed].folder} and {result.folder} are both {result.model} with seed {result.seed} "
                    f"on {result.dataset.name}: leave one out, or name one otherwise with ea-fairseq evaluate --model."
                )
            seeds[result.seed] = result
        comparison = cls(by_seed, score, baseline)
        require_same_data(comparison.all_results())
        require_same_scores(comparison.all_results())
        require_same_models(comparison.all_results())
        require_same_references(comparison.all_results())
        if baseline is not None:
            comparison.require_baseline(baseline)
        return comparison

    def all_results(self) -> list[Results]:
        """All results: by model, then data set, then seed."""
        return [
            result
            for model in self.models
            for dataset in self.datasets
            for result in self.results(model, dataset).values()
        ]

    def results(self, model: str, dataset: str) -> dict[int, Results]:
        """The results of a model on a data set, by seed; empty if there are none."""
        return self.by_seed.get((model, dataset), {})

    @property
    def datasets(self) -> list[str]:
        """The names of the data sets, sorted."""
        return sorted({dataset for _, dataset in self.by_seed})

    @property
    def models(self) -> list[str]:
        """The names of the models: baselines first, then in the papers' order, then by name."""
        order = list(PAPER)
        known = {name: order.index(name) if name in order else len(order) for name, _ in self.by_seed}
        return sorted(known, key=lambda name: (name != self.baseline, self._has_mechanism(name), known[name], name))

    def on(self, dataset: str) -> "Comparison":
        """The comparison on one of its data sets."""
        return replace(self, by_seed={key: found for key, found in self.by_seed.items() if key[1] == dataset})

    def example(self, model: str) -> Results:
        """Any one of a model's results, to read what all of them have in common."""
        return next(iter(next(seeds for (name, _), seeds in self.by_seed.items() if name == model).values()))

    def task(self, dataset: str) -> str:
        """fairseq's task for a data set."""
        return next(result.task for result in self.all_results() if result.dataset.name == dataset)

    def names(self, dataset: str) -> list[str]:
        """The names of the scores of a data set, the compared one first."""
        names = next(list(result.scores) for result in self.all_results() if result.dataset.name == dataset)
        return sorted(names, key=lambda name: name != self.score)

    def low_is_good(self, dataset: str) -> bool:
        """Whether a lower value of the compared score is better."""
        return self.names(dataset)[0] in LOW_IS_GOOD

    def scores(self, model: str, dataset: str, score: str | None = None) -> dict[int, float]:
        """A score in points, by seed; by default the compared one."""
        name = score or self.names(dataset)[0]
        return {seed: result.scores[name].score for seed, result in self.results(model, dataset).items()}

    def baseline_of(self, model: str, dataset: str) -> str | None:
        """The model to compare with; None for a baseline itself, or if there is none or nothing to compare."""
        if self.baseline is not None:
            return self.baseline if model != self.baseline else None
        if not self._has_mechanism(model) or not self.results(model, dataset):
            return None
        size = self.parameters(model, dataset)
        distance = {
            name: abs(self.parameters(name, dataset) / size - 1)
            for name, found in self.by_seed
            if found == dataset and not self._has_mechanism(name)
        }
        nearest = min(sorted(distance), key=distance.__getitem__, default=None)
        return nearest if nearest is not None and distance[nearest] <= SAME_SIZE else None

    def pair(self, model: str, dataset: str) -> "Pair | None":
        """A model and its baseline on a data set, seed by seed; None unless they have two seeds or more in common.

        Raises:
            UserError: if one of them was trained several times and they have no seed in common.
        """
        baseline = self.baseline_of(model, dataset)
        if baseline is None:
            return None
        ours, theirs = self.results(model, dataset), self.results(baseline, dataset)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds and max(len(ours), len(theirs)) > 1:
            raise UserError(
                f"{model} and its baseline {baseline} have no seed in common on {dataset}, and are compared seed by "
                "seed: train one with a seed of the other."
            )
        if len(seeds) < 2:  # scores vary with the seed, so one seed shows no difference
            return None
        return Pair(
            baseline, self.names(dataset)[0], seeds, [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
        )

    def parameters(self, model: str, dataset: str) -> int:
        """The parameters of a model on a data set, which may decide the sizes of input and output layers."""
        return next(iter(self.results(model, dataset).values())).parameters

    def _has_mechanism(self, model: str) -> bool:
        return self.example(model).has_mechanism

    def require_baseline(self, baseline: str) -> None:
        """Raises UserError if a data set has no results of the baseline that was asked for."""
        for dataset in self.datasets:
            if not self.results(baseline, dataset):
                raise UserError(
                    f"--baseline: there are no results of {baseline} on {dataset}; there are those of "
                    f"{', '.join(name for name in self.models if self.results(name, dataset))}."
                )


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds; one seed has no deviation."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Computes mean and sample deviation; a single value has no deviation."""
        values = list(values)
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class Pair:
    """A model and its baseline on a data set, over the seeds that both have.

    Args:
        baseline: its name.
        score: the name of the score that is compared.
        ours, theirs: the results of the model and of the baseline, in the order of the seeds.
    """

    baseline: str
    score: str
    seeds: list[int]
    ours: list[Results]
    theirs: list[Results]

    @property
    def scores(self) -> list[list[float]]:
        """The scores of the baseline and of the model, by seed."""
        return [[result.scores[self.score].score for result in side] for side in (self.theirs, self.ours)]

    @property
    def difference(self) -> Spread:
        """How much higher the model scores than its baseline, over seeds."""
        return Spread.of(ours - theirs for theirs, ours in zip(*self.scores, strict=True))


def find_results(places: Iterable[Path]) -> list[Results]:
    """Reads results.json files, given or in folders at any depth, each once.

    In folders, evaluations of released copies of trained models are skipped.

    Raises:
        UserError: naming a place that has none.
    """
    files: dict[Path, Path] = {}
    for place in places:
        below = (file for file in place.rglob(NAME) if file.parent.name != RELEASED)
        found = sorted(below) if place.is_dir() else [place]
        if not found:
            raise UserError(f"{place} has no {NAME}: evaluate a model first, with ea-fairseq evaluate.")
        files |= {file.resolve(): file for file in found}
    return [Results.read(file) for file in files.values()]
