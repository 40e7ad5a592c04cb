"""The base of tasks whose examples are in memory, and whose checkpoints have a description of the training data."""

from typing import Any, Generic, Protocol, Self, TypeVar

from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.plain.descriptions import plain_values


class Description(Protocol):
    """The description of a data set that models and checkpoints keep."""

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Reads plain values, which are not trusted."""

    @property
    def outputs(self) -> int:
        """Number of outputs of a model."""


D = TypeVar("D", bound=Description)


class DescribedTask(FairseqTask, Generic[D]):
    """A task with a description of its training data, for models of one kind.

    Args:
        describes: class of the description, a class attribute.
        state_name: name of the description in checkpoints, a class attribute.
    """

    describes: type[D]
    state_name: str

    def __init__(self, cfg: Any, **kwargs: Any):
        super().__init__(cfg)
        self._description: D | None = None
        self.state.add_factory(self.state_name, lambda: plain_values(self.measure()))

    def measure(self) -> D:
        """Describes the training data."""
        raise NotImplementedError

    @property
    def description(self) -> D:
        """The description of the training data, or the loaded checkpoint's."""
        if self._description is None:
            self._description = self.describes.from_state(getattr(self.state, self.state_name))
        return self._description

    def load_state_dict(self, state_dict: dict) -> None:
        """Uses a checkpoint's description in place of the training data's.

        Raises:
            UserError: if it is invalid.
        """
        description = self._description = self.describes.from_state(state_dict.get(self.state_name))
        self.state.merge_state_dict({self.state_name: plain_values(description)})

    def require_criterion(self, cfg: Any, kind: type[FairseqCriterion], name: str) -> None:
        """Raises UserError unless the requested criterion is of a kind, or comes from a user-dir."""
        found = CRITERION_REGISTRY[getattr(cfg, "_name", None) or cfg.criterion]
        if not issubclass(found, kind) and found.__module__.startswith(("fairseq.", "ea_fairseq.")):
            raise UserError(f"--task {self.cfg._name} needs --criterion {name}")

    def get_batch_iterator(
        self, dataset: FairseqDataset, *args: Any, num_workers: int = 0, **kwargs: Any
    ) -> EpochBatchIterating:
        """Returns fairseq's iterator without the processes of ``--num-workers``: the data is already in memory."""
        return super().get_batch_iterator(dataset, *args, num_workers=0, **kwargs)

    @property
    def source_dictionary(self) -> None:
        """None: the examples have no tokens."""

    target_dictionary = source_dictionary
