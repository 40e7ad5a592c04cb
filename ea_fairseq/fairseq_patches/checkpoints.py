"""Checkpoints load without running code, or are refused with one sentence.

Faults of fairseq/checkpoint_utils.py:

- ``load_checkpoint_to_cpu`` calls ``torch.load``, and torch >= 2.6 refuses the classes in fairseq's own checkpoints.
  Here those few classes are declared safe to torch; none of them runs code when it is unpickled.
- ``load_model_ensemble_and_task`` builds whatever a checkpoint's options say: fairseq evaluates some of them, and opens
  files and addresses that others name. Here each option is checked first (``ea_fairseq/checkpoint``), and the file's
  options for beam search and for embedding files are dropped.
- ``load_checkpoint``, ``load_checkpoint_to_cpu`` and ``load_model_ensemble_and_task`` end with a traceback for a file
  that is damaged or does not fit. Here they raise a UserError.
- ``load_checkpoint`` trains from random weights if the file of ``--restore-file`` is missing. Here this is refused.
"""

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import FairseqDataset
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.file_io import PathManager
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fairseq.utils import resolve_max_positions
from omegaconf import OmegaConf

from ea_fairseq.checkpoint.allocation import AllocationLimit
from ea_fairseq.checkpoint.config import remove_search_and_embedding_options, require_known
from ea_fairseq.checkpoint.file import building, read_checkpoint, refusing
from ea_fairseq.checkpoint.released import is_released
from ea_fairseq.errors import UserError, flags_refused
from ea_fairseq.models.nested_options import flatten

# Classes in a checkpoint that torch does not know: options, and NumPy's arrays and numbers, which --eval-bleu and
# --report-pearson-and-spearman store.
SAFE_CLASSES = (argparse.Namespace, np.ndarray, np.dtype)
SAFE_TYPES = tuple(type(np.dtype(name)) for name in ("int32", "int64", "float32", "float64"))
# The functions in a pickled array and number, by NumPy's names for them before and since its version 2.
ARRAY_FUNCTIONS: tuple[Any, ...] = (np.empty(0).__reduce__()[0], np.float64().__reduce__()[0])
NUMPY_FUNCTIONS = tuple(
    (function, f"{package}.multiarray.{function.__name__}")
    for function in ARRAY_FUNCTIONS
    for package in ("numpy.core", "numpy._core")
)

DEFAULT_RESTORE_FILE = CheckpointConfig().restore_file

fairseq_load_checkpoint = checkpoint_utils.load_checkpoint
fairseq_load_to_cpu = checkpoint_utils.load_checkpoint_to_cpu
fairseq_load_models = checkpoint_utils.load_model_ensemble_and_task


def patch_checkpoints() -> None:
    """Declares the classes in fairseq's checkpoints safe, and replaces three functions of fairseq by those below."""
    torch.serialization.add_safe_globals([*SAFE_CLASSES, *SAFE_TYPES, *NUMPY_FUNCTIONS])
    checkpoint_utils.load_checkpoint = load_checkpoint
    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    checkpoint_utils.load_model_ensemble_and_task = load_model_ensemble_and_task


def load_checkpoint(cfg: CheckpointConfig, trainer: Trainer, **kwargs: Any) -> tuple:
    """Restores a training from its checkpoint, or starts a new one, as fairseq does.

    Returns:
        The checkpoint's extra state, or None; and the iterator over epochs.

    Raises:
        UserError: naming the flag, if flags contradict each other, a file that a flag names is missing, or the
            optimizer's state is another model's.
    """
    path = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix or ''}.pt")
    if cfg.restore_file != DEFAULT_RESTORE_FILE and not PathManager.isfile(path):
        raise UserError(f"--restore-file: there is no file {path}")
    require_valid_sizes(trainer)
    try:
        with flags_refused():
            return fairseq_load_checkpoint(cfg, trainer, **kwargs)
    except ValueError as error:
        if "parameter group" not in str(error):
            raise
        raise UserError(
            "the checkpoint has the optimizer's state of another model: start from it with --finetune-from-model, "
            "or with --reset-optimizer and the other resets."
        ) from error


def require_valid_sizes(trainer: Trainer) -> None:
    """Refuses validation sentences that are too long for the model; fairseq does so only after the first epoch.

    Raises:
        UserError: with fairseq's sentence.
    """
    dataset = trainer.cfg.dataset
    if dataset.disable_validation or dataset.skip_invalid_size_inputs_valid_test:
        return
    positions = resolve_max_positions(trainer.task.max_positions(), trainer.get_model().max_positions())
    for subset in dataset.valid_subset.split(","):
        if isinstance(sentences := trainer.task.datasets.get(subset), FairseqDataset):
            try:
                trainer.task.filter_indices_by_size(sentences.ordered_indices(), sentences, positions)
            except Exception as error:
                raise UserError(f"{subset}: {' '.join(str(error).split())}") from error


def load_checkpoint_to_cpu(path: str, arg_overrides: dict | None = None, *args: Any, **kwargs: Any) -> dict:
    """Loads a checkpoint as fairseq does, without the options that :func:`remove_search_and_embedding_options` drops.

    Args:
        arg_overrides: options that replace the checkpoint's.

    Returns:
        The checkpoint's state: ``model``, ``cfg`` and so on, all tensors on the CPU.

    Raises:
        UserError: naming the file, if it is damaged, is no checkpoint, or contains more than data.
        OSError: if it cannot be read.
    """
    state = read_checkpoint(PathManager.get_local_path(path))
    with refusing(path):
        if is_released(path):
            state = upgraded(state, arg_overrides or {})
        else:
            state = fairseq_load_to_cpu(path, arg_overrides, *args, **kwargs)
        flatten((state.get("cfg") or {}).get("model"), complete=True)
        remove_search_and_embedding_options(state, arg_overrides or ())
    return state


def load_model_ensemble_and_task(
    filenames: list[str],
    arg_overrides: dict | None = None,
    task: FairseqTask | None = None,
    strict: bool = True,
    suffix: str = "",
    num_shards: int = 1,
    state: dict | None = None,
) -> tuple:
    """Loads an ensemble of models, one per file, as fairseq does.

    Returns:
        The models, their configuration and their task.

    Raises:
        UserError: naming the file, if its options are not those of a translation model or contradict each other;
            naming the flags for checkpoints in parts, if a model is a released one.
        OSError: if a file is missing.
    """
    if (suffix or num_shards > 1) and any(map(is_released, filenames)):
        raise UserError(
            "--checkpoint-suffix and --checkpoint-shard-count are for checkpoints in parts, and a released model is "
            "one file: leave them out."
        )
    files = [Path(PathManager.get_local_path(f"{path}")) for path in filenames]
    if state is None and not suffix and num_shards == 1 and all(map(Path.is_file, files)):
        return build_models(filenames, list(map(read_checkpoint, files)), arg_overrides or {}, task, strict)
    parts = parts_of(filenames, suffix, num_shards) if state is None else {filenames[0]: state}
    for path, part in parts.items():
        require_safe_options(path, part, arg_overrides or {})
    names = ", ".join(map(str, filenames))
    parameters = [parameter for part in parts.values() for parameter in part["model"].values()]
    with AllocationLimit(names, parameters), building(names):
        return fairseq_load_models(filenames, arg_overrides, task, strict, suffix, num_shards, state)


def parts_of(filenames: list[str], suffix: str, num_shards: int) -> dict[str, dict]:
    """Reads the files that fairseq opens for checkpoints in parts, by path; it names those that are missing itself."""
    paths = [
        checkpoint_utils.get_maybe_sharded_checkpoint_filename(f"{path}", suffix, shard, num_shards)
        for path in filenames
        for shard in range(num_shards)
    ]
    return {path: read_checkpoint(PathManager.get_local_path(path)) for path in paths if PathManager.isfile(path)}


def require_safe_options(path: str, state: dict, given: Collection[str]) -> None:
    """Checks the options of a checkpoint that :func:`read_checkpoint` has read.

    Args:
        given: names of options, or of whole groups, that are not taken from the checkpoint.

    Raises:
        UserError: naming the file and the first option that fairseq must not see.
    """
    with refusing(path):
        flatten((state.get("cfg") or {}).get("model"), complete=True)
        require_known(state, given)


def build_models(
    filenames: list[str],
    states: list[dict],
    overrides: dict,
    task: FairseqTask | None = None,
    strict: bool = True,
    given: Collection[str] | None = None,
) -> tuple:
    """Builds an ensemble of models from what :func:`read_checkpoint` has read, one per file.

    Args:
        overrides: options that replace the checkpoints'.
        given: names of options, or of whole groups, that are not taken from the checkpoints; by default the overrides.

    Returns:
        The models, their configuration and their task.

    Raises:
        UserError: naming the file, if its options are not those of a translation model or contradict each other.
    """
    given = overrides if given is None else given
    for path, state in zip(filenames, states, strict=True):
        require_safe_options(path, state, given)
    models, cfg = [], None
    for path, state in zip(filenames, states, strict=True):
        with refusing(path):
            state = upgraded(state, overrides)
            remove_search_and_embedding_options(state, overrides)
        with AllocationLimit(path, state["model"].values()), building(", ".join(filenames)):
            (model,), cfg, task = fairseq_load_models([path], overrides, task, strict, state=state)
        model.checkpoint_path = Path(path).absolute()
        models.append(model)
    return models, cfg, task


def upgraded(state: dict, overrides: dict) -> dict:
    """Applies overrides to a state and renames old options, as fairseq's ``load_checkpoint_to_cpu`` does."""
    if state.get("args") is not None:
        vars(state["args"]).update(overrides)
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], overrides)
    return checkpoint_utils._upgrade_state_dict(state)
