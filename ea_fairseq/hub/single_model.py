"""Trained models that predict without their training data, which their checkpoint describes."""

from pathlib import Path
from typing import Any, ClassVar, Self

from fairseq import checkpoint_utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.plain.model_folder import find_checkpoints, usual_checkpoint


class SingleModel:
    """A model from a single checkpoint, which cannot be part of an ensemble.

    Attributes:
        task_name, task_class: ``--task`` that trains it, and its class.
        noun: what it predicts, for messages.
        description: of its training data.
    """

    task_name: ClassVar[str]
    task_class: ClassVar[type[FairseqTask]]
    noun: ClassVar[str]

    def __init__(self, model: BaseFairseqModel, task: Any):
        self.model, self.task, self.description = model.eval(), task, task.description

    @classmethod
    def from_pretrained(cls, folder: str | Path, checkpoint_file: str | None = None) -> Self:
        """Loads a trained model.

        Args:
            checkpoint_file: in this folder; by default the first that exists of ``checkpoint_best.pt``,
                ``checkpoint_last.pt``, ``model.safetensors`` and ``model.pt``.

        Raises:
            UserError: if folder or checkpoint are missing or cannot be used, or the model is of another task.
        """
        path, *others = find_checkpoints(Path(folder), checkpoint_file or usual_checkpoint(Path(folder)))
        if others:
            raise UserError(f"it must be one checkpoint: models of {cls.noun} cannot form an ensemble")
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
        if not isinstance(task, cls.task_class):
            raise UserError(f"{path} predicts no {cls.noun}: it was not trained with --task {cls.task_name}")
        return cls(model, task)
