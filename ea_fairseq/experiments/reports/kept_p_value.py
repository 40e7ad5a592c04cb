"""p-values of encoders whose predictions are not published: beside these stand the labels of others' data sets."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Results
from ea_fairseq.plain.own_file import own_file
from ea_fairseq.plain.records import MEGABYTE, as_record, read_json

NAME = "p_value.json"  # beside the folders of a model's seeds


@dataclass(frozen=True)
class KeptPValue:
    """What was found of a model and its baseline while their predictions were there.

    Args:
        baseline, score: their names.
        seeds: of the trainings that were compared.
        scores: of the baseline and of the model, by seed, that p is of.
    """

    baseline: str
    score: str
    seeds: list[int]
    scores: list[list[float]]
    p: float

    @classmethod
    def read(cls, path: Path) -> "KeptPValue":
        """
        Raises:
            UserError: naming the file, where it is not what ea-fairseq report --keep writes.
        """
        file = own_file(path, MEGABYTE)
        try:
            return as_record(cls, read_json(file))
        except ValueError as error:
            raise UserError(f"{path} is not what report --keep writes ({error}): keep the results again.") from None

    def write(self, path: Path) -> None:
        """Writes it."""
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def p_value(comparison: Comparison, model: str, baseline: str, dataset: str, seeds: list[int]) -> KeptPValue:
    """How likely the choice of the examples alone makes such a difference of an encoder to its baseline.

    Where predictions are not there, it is what was kept of these scores, maybe of some of the seeds.

    Raises:
        UserError: where neither predictions nor a kept value of this comparison are there.
    """
    from ea_fairseq.experiments.scoring.randomization import randomization_p_value  # takes a second

    ours, theirs = comparison.results(model, dataset), comparison.results(baseline, dataset)
    score, kept = comparison.names(dataset)[0], ours[seeds[0]].folder.parent / NAME
    if not ours[seeds[0]].has(PREDICTIONS) and kept.is_file():
        found = KeptPValue.read(kept)
        of_this = (found.baseline, found.score) == (baseline, score) and {*found.seeds} <= {*seeds}
        if of_this and len(found.seeds) > 1 and found.scores == scores_of(score, found.seeds, theirs, ours):
            return found
    p = randomization_p_value([theirs[seed] for seed in seeds], [ours[seed] for seed in seeds], score)
    return KeptPValue(baseline, score, seeds, scores_of(score, seeds, theirs, ours), p)


def scores_of(score: str, seeds: list[int], *results: dict[int, Results]) -> list[list[float]]:
    """The scores of models, each by the seeds."""
    return [[by_seed[seed].scores[score].score for seed in seeds] for by_seed in results]
