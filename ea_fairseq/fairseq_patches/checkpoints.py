"""Checkpoints: loaded without running what they hold, refused in one sentence, and saved whole or not at all."""

import argparse
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from ea_fairseq.checkpoint.config import require_known, without_foreign_choices
from ea_fairseq.checkpoint.file import building, read_checkpoint, refusing
from ea_fairseq.user_error import UserError, flags_refused

# A translation checkpoint has the model's options in a Namespace and, with --eval-bleu, counts in NumPy's arrays.
HARMLESS = (argparse.Namespace, np.ndarray, np.dtype, np.dtypes.Int64DType, np.dtypes.Float64DType)
make_array = np.empty(0).__reduce__()[0]  # what NumPy unpickles an array with

fairseq_start = checkpoint_utils.load_checkpoint
fairseq_load = checkpoint_utils.load_checkpoint_to_cpu
fairseq_build = checkpoint_utils.load_model_ensemble_and_task
fairseq_save = checkpoint_utils.torch_persistent_save
fairseq_copy = PathManager.copy


def make_checkpoints_safe():
    """Puts the functions below into fairseq, for all of its commands.

    torch >= 2.6 loads no class that it was not told about. Those in a translation checkpoint that torch does not know
    are ``HARMLESS``: they run no code when they are loaded.
    """
    torch.serialization.add_safe_globals([*HARMLESS, make_array])
    checkpoint_utils.load_checkpoint = start_or_refuse
    checkpoint_utils.load_checkpoint_to_cpu = load_or_refuse
    checkpoint_utils.load_model_ensemble_and_task = build_or_refuse
    checkpoint_utils.torch_persistent_save = save_whole
    PathManager.copy = staticmethod(copy_whole)


def start_or_refuse(cfg: CheckpointConfig, trainer: Trainer, **kwargs):
    """Starts a training, from a checkpoint where there is one, as fairseq does.

    Raises:
        UserError: naming the flag, where flags contradict each other or the optimizer's state is another model's.
    """
    try:
        with flags_refused():
            return fairseq_start(cfg, trainer, **kwargs)
    except ValueError as error:
        if "parameter group" not in str(error):
            raise
        raise UserError(
            "the checkpoint has the optimizer's state of another model: start from it with --finetune-from-model, "
            "or with --reset-optimizer and the other resets."
        ) from error


def load_or_refuse(path: str, arg_overrides: dict | None = None, *args, **kwargs) -> dict:
    """Loads a checkpoint as fairseq does, but for its author's choices of how to search and of files to open.

    Raises:
        UserError: naming the file, where it is not a whole checkpoint or holds more than data.
        OSError: where it cannot be read.
    """
    read_checkpoint(PathManager.get_local_path(path))
    with refusing(path):
        state = fairseq_load(path, arg_overrides, *args, **kwargs)
        without_foreign_choices(state, arg_overrides or ())
    return state


def build_or_refuse(filenames: list[str], arg_overrides: dict | None = None, *args, **kwargs) -> tuple:
    """Builds the models of checkpoints as fairseq does.

    Raises:
        UserError: naming the file, where its options are not those of a translation model, or contradict each other.
        OSError: where a file is not there.
    """
    for path in filenames:
        local = Path(PathManager.get_local_path(path))
        if local.is_file():  # else it is in shards, or fairseq says that it is missing
            state = read_checkpoint(local)
            with refusing(path):
                require_known(state, arg_overrides or ())
    with building(", ".join(filenames)):
        return fairseq_build(filenames, arg_overrides, *args, **kwargs)


def save_whole(state: dict, path: str, async_write: bool = False):
    """Saves a checkpoint as fairseq does, without its second and third attempt, which write behind half a file.

    Raises:
        UserError: naming the file, where it cannot be written; what was there before is still there.
    """
    if async_write or not is_local(path):
        return fairseq_save(state, path, async_write)
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        torch.save(state, file)


def copy_whole(source: str, target: str, overwrite: bool = False) -> bool:
    """Copies a file as fairseq does, except that a copy that is cut short replaces nothing.

    Raises:
        UserError: naming the target, where it cannot be written; what was there before is still there.
    """
    if not (overwrite and is_local(source) and is_local(target)):
        return fairseq_copy(source, target, overwrite)
    with replacing(target) as unfinished:
        shutil.copyfile(source, unfinished)
    return True


def is_local(path: str) -> bool:
    return not PathManager.path_requires_pathmanager(path)


@contextmanager
def replacing(path: str):
    """Yields a path to write to and lets that file take the place of ``path`` at the end, unless writing fails."""
    unfinished = Path(f"{path}.tmp")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(
            f"could not save {path}: {error.strerror or error}; the checkpoints saved before are unharmed, and "
            "training resumes from the last one."
        ) from error
