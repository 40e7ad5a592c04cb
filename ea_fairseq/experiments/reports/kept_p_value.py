"""p-values of encoders whose predictions are not published: beside these stand the labels of others' data sets."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Pair
from ea_fairseq.experiments.scoring.results import PREDICTIONS
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


def p_value(pair: Pair) -> KeptPValue:
    """How likely the choice of the examples alone makes such a difference of an encoder to its baseline.

    Without predictions it is the stored value of the same scores, which may be of some of the seeds only.

    Raises:
        UserError: where there are neither predictions nor a stored value of this comparison.
    """
    from ea_fairseq.experiments.scoring.randomization import randomization_p_value  # takes a second

    stored = pair.ours[0].folder.parent / NAME
    if not pair.ours[0].has(PREDICTIONS) and stored.is_file():
        found = KeptPValue.read(stored)
        places = [pair.seeds.index(seed) for seed in found.seeds if seed in pair.seeds]
        scores = [[side[place] for place in places] for side in pair.scores]
        same_pair = (found.baseline, found.score) == (pair.baseline, pair.score)
        if same_pair and len(found.seeds) == len(places) > 1 and found.scores == scores:
            return found
    p = randomization_p_value(pair.theirs, pair.ours, pair.score)
    return KeptPValue(pair.baseline, pair.score, pair.seeds, pair.scores, p)
