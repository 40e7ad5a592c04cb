"""Stored p-values of encoders; their predictions are not published, because the files have labels of others' data."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ea_fairseq.experiments.reports.comparison import Pair
from ea_fairseq.experiments.scoring.results import PREDICTIONS
from ea_fairseq.plain.files import own_file
from ea_fairseq.plain.records import MEGABYTE, as_record, read_json, written_by

NAME = "p_value.json"  # next to the folders of a model's seeds


@dataclass(frozen=True)
class KeptPValue:
    """The p-value of a model and its baseline, computed while their predictions were there.

    Args:
        baseline, score: their names.
        seeds: of the trainings that were compared.
        scores: of the baseline and of the model, by seed, for which p was computed.
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
            UserError: naming the file, if it is not what ea-fairseq report --keep writes.
        """
        with written_by("report --keep", path, "keep the results again"):
            return as_record(cls, read_json(own_file(path, MEGABYTE)))

    def write(self, path: Path) -> None:
        """Writes it."""
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def p_value(pair: Pair) -> KeptPValue:
    """Returns how likely the choice of examples alone makes such a difference between an encoder and its baseline.

    The value covers the seeds whose predictions are there. Without any, it is the stored value for the same scores,
    which may cover only some of the seeds, too.

    Raises:
        UserError: if there are neither predictions nor a stored value of this comparison.
    """
    from ea_fairseq.experiments.scoring.randomization import randomization_p_value  # takes a second

    stored = pair.ours[0].folder.parent / NAME
    sides = list(zip(pair.theirs, pair.ours, strict=True))
    there = [place for place, side in enumerate(sides) if all(result.has(PREDICTIONS) for result in side)]
    if not there and stored.is_file():
        found = KeptPValue.read(stored)
        places = [pair.seeds.index(seed) for seed in found.seeds if seed in pair.seeds]
        scores = [[side[place] for place in places] for side in pair.scores]
        same_pair = (found.baseline, found.score) == (pair.baseline, pair.score)
        if same_pair and found.seeds and len(found.seeds) == len(places) and found.scores == scores:
            return found
    places = there or list(range(len(sides)))
    theirs, ours = zip(*(sides[place] for place in places), strict=True)
    p = randomization_p_value(theirs, ours, pair.score)
    seeds, scores = [pair.seeds[place] for place in places], [[side[place] for place in places] for side in pair.scores]
    return KeptPValue(pair.baseline, pair.score, seeds, scores, p)
