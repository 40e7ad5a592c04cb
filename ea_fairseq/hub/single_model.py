"""Loads a model from a single checkpoint, for kinds of models that cannot be ensembles."""

from pathlib import Path
from typing import TypeVar

from fairseq import checkpoint_utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.plain.model_folder import find_checkpoints

Task = TypeVar("Task", bound=FairseqTask)


def load_single(
    folder: str | Path, checkpoint_file: str, kind: type[Task], name: str, noun: str
) -> tuple[BaseFairseqModel, Task]:
    """Loads a model and its task.

    Args:
        kind: the class of the task; ``name`` is what ``--task`` calls it.
        noun: what the model predicts, for messages.

    Raises:
        UserError: if folder or checkpoint are missing or cannot be used, or the model is of another task.
    """
    path, *others = find_checkpoints(Path(folder), checkpoint_file)
    if others:
        raise UserError(f"it must be one checkpoint: models of {noun} cannot form an ensemble")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    if not isinstance(task, kind):
        raise UserError(f"{path} predicts no {noun}: it was not trained with --task {name}")
    return model, task
