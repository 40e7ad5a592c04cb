"""What a trained model made of a subset, and what evaluation.py asks of it, whichever of fairseq's tasks it is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ea_fairseq.analysis.cost import Cost
from ea_fairseq.experiments.scoring.results import Setting


@dataclass(frozen=True)
class Description:
    """What tables say of a model.

    Args:
        family: its family's name; None for a model without a mechanism.
        settings: the options that tell it from others.
    """

    family: str | None
    settings: dict[str, Setting]
    cost: Cost


class Outcome:
    """What a trained model made of a subset; ``read`` takes it from the folder of the evaluation.

    Subclasses have ``read(args, checkpoint)``, ``describe(model)`` and ``scores()``, by name, the one that papers print
    first before the others.

    Attributes:
        definitions: what scores are, by their names.
        size: how much there is in the subset, in words.
        search: the options of the search; none where nothing is searched.
    """

    definitions: ClassVar[Mapping[str, str]]
    size: str
    search: Mapping[str, float] = {}

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        return []

    def files(self) -> dict[str, Sequence[str]]:
        """What is to be written beside results.json, line by line."""
        return {}
