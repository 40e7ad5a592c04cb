"""The output of a trained model on a subset: the interface that evaluation.py needs, for any of fairseq's tasks."""

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
    """A model's description for tables.

    Args:
        family: its family's name; None for a model without a mechanism.
        settings: the options that distinguish it from others.
    """

    family: str | None
    settings: dict[str, Setting]
    cost: Cost


class Outcome(ABC):
    """The output of a trained model on a subset.

    Attributes:
        definitions: of the scores, by their names.
    """

    definitions: ClassVar[Mapping[str, str]]

    @classmethod
    @abstractmethod
    def read(cls, args: Namespace, checkpoint: Checkpoint) -> "Outcome":
        """Reads it from the folder of the evaluation; raises UserError if it is missing."""

    @abstractmethod
    def describe(self, model: Any) -> Description:
        """Describes the model for tables."""

    @abstractmethod
    def scores(self) -> dict[str, Score]:
        """Scores by name, the papers' main score first."""

    @abstractmethod
    def size(self) -> str:
        """The size of the subset, such as ``11 sentences``."""

    def search(self) -> dict[str, float]:
        """The options of the search; empty if there is no search."""
        return {}

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        return []

    def files(self) -> Mapping[str, Sequence[str]]:
        """The files to write next to results.json, line by line."""
        return {}
