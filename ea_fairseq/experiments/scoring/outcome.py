"""What a trained model made of a subset, and what evaluation.py asks of it, whichever of fairseq's tasks it is for."""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ea_fairseq.analysis.cost import Cost
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.scoring.results import Score, Setting


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


class Outcome(ABC):
    """What a trained model made of a subset.

    Attributes:
        definitions: what scores are, by their names.
    """

    definitions: ClassVar[Mapping[str, str]]

    @classmethod
    @abstractmethod
    def read(cls, args: Namespace, checkpoint: Checkpoint) -> "Outcome":
        """Reads it from the folder of the evaluation; raises UserError where it is not there."""

    @abstractmethod
    def describe(self, model: Any) -> Description:
        """What tables say of the model."""

    @abstractmethod
    def scores(self) -> dict[str, Score]:
        """Scores by name, the one that papers print first before the others."""

    @abstractmethod
    def size(self) -> str:
        """How much there is in the subset, such as ``11 sentences``."""

    def search(self) -> dict[str, float]:
        """The options of the search; none where nothing is searched."""
        return {}

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        return []

    def files(self) -> Mapping[str, Sequence[str]]:
        """The files to write next to results.json, line by line."""
        return {}
