"""The base of tasks that predict one class, or one number, of each example."""

from typing import Any, ClassVar

from fairseq.criterions import FairseqCriterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.data import Dictionary

from ea_fairseq.errors import UserError
from ea_fairseq.tasks.described import D, DescribedTask

HEAD = SentencePredictionConfig.classification_head_name


class PredictionTask(DescribedTask[D]):
    """A task for the criterion ``sentence_prediction``, whose models have one classification head.

    Args:
        noun: what messages call the examples, a class attribute.
    """

    noun: ClassVar[str]

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return True

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> FairseqCriterion:
        """Builds the criterion.

        Raises:
            UserError: if it is for another task, another kind of target, or another head.
        """
        self.require_criterion(cfg, SentencePredictionCriterion, "sentence_prediction")
        of_numbers = getattr(cfg, "regression_target", None)
        if of_numbers is True and self.has_classes:
            raise UserError(f"--regression-target is for numbers, and these {self.noun} have classes: leave it out")
        if of_numbers is False and not self.has_classes:
            raise UserError(f"these {self.noun} have numbers to predict: give --regression-target")
        if getattr(cfg, "classification_head_name", HEAD) != HEAD:
            raise UserError(
                f"--classification-head-name is not for {self.noun}, whose models have one head: leave it out"
            )
        return super().build_criterion(cfg, from_checkpoint)

    @property
    def label_dictionary(self) -> Dictionary:
        """The dictionary of class indices as text, which the criterion reads as integers."""
        numbers = Dictionary()
        for number in range(self.description.outputs):
            numbers.add_symbol(str(number))
        return numbers
