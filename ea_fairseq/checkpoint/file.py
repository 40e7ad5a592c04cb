"""Reading a checkpoint's file as data, and checking it before fairseq uses it."""

import errno
import pickle
import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path

import torch
from hydra.errors import HydraException
from torch import Tensor

from ea_fairseq.checkpoint.config import entries, require_choices, require_plain, shown
from ea_fairseq.checkpoint.option_rules import integer
from ea_fairseq.checkpoint.released import is_released, read_released
from ea_fairseq.errors import FileError, UserError

ZIP = b"PK\x03\x04"
LARGEST_PICKLE = 16 << 20  # bytes, without the tensors; a million objects are far below
MAX_DESCRIPTION = 200_000  # values; time series have a mean and a deviation for each of at most 65,536 channels
DAMAGED = "is not whole: its end is missing or damaged"


def read_checkpoint(path: str | Path) -> dict:
    """Loads a checkpoint's state: ``model``, ``cfg`` or ``args``, and so on; its tensors are memory-mapped.

    Args:
        path: a checkpoint of fairseq, or a released model's ``model.safetensors``.

    Raises:
        UserError: naming the file, if it is damaged, is no checkpoint, contains more than data, or has invalid tensors,
            counts or options.
        OSError: if it cannot be read.
    """
    with refusing(path):
        state = read_released(Path(path)) if is_released(path) else read_pickle(path)
        require_state(state)
    return state


def read_pickle(path: str | Path) -> dict:
    """Loads a file that torch has saved, if it contains only data."""
    with Path(path).open("rb") as file:
        zipped = file.read(len(ZIP)) == ZIP
    if zipped:
        require_stored(path)
    return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)


@contextmanager
def refusing(path: str | Path) -> Iterator[None]:
    """Turns errors about a checkpoint's contents into a UserError that names the file; other errors pass.

    Raises:
        UserError: one sentence, for a UserError or any error that :func:`explanation` explains.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{path} is refused: {error}.") from None
    except Exception as error:  # a file that is no checkpoint can raise any error
        reason = explanation(error)
        if reason is None:
            raise
        raise UserError(f"{path} {reason}.") from error


@contextmanager
def building(paths: str) -> Iterator[None]:
    """Turns errors in building models from checkpoints into a UserError that names the files.

    Args:
        paths: the files, as the message names them.

    Raises:
        UserError: one sentence. MemoryError and OSError pass unchanged, except for a missing dictionary.
    """
    try:
        yield
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        path = Path(error.filename)
        missing = path if str(path).isprintable() and len(str(path)) < 300 else shown(path.name)
        raise UserError(
            f"there is no dictionary {missing}, which {paths} needs: give the folder that has it (in Python, as "
            "data_name_or_path)."
        ) from error
    except (MemoryError, OSError, FileError):
        raise
    except UserError as error:
        if paths in str(error):
            raise
        raise UserError(f"{paths}: {error}") from error
    except (Exception, SystemExit) as error:  # contradictory options can raise any error, a bad file SystemExit
        reason = shown(f"{type(error).__name__}: {' '.join(str(error).split())}")
        raise UserError(f"{paths}: fairseq could not build a model from its options ({reason}).") from error


def explanation(error: Exception) -> str | None:
    """Explains what is wrong with a checkpoint, as the end of a sentence; returns None for errors of disk or memory."""
    foreign = re.search(r"(?i:global) ([\w.]+\.\w+)", f"{error.__context__} {error}")
    if isinstance(error, pickle.UnpicklingError) and foreign:
        return f"is refused: it wants to run {foreign[1]:.80}, and a checkpoint is data"
    too_short_to_seek_in = isinstance(error, OSError) and error.errno == errno.EINVAL
    if too_short_to_seek_in or isinstance(error, zipfile.BadZipFile) or "zip archive" in str(error):
        return DAMAGED
    if (isinstance(error, OSError) and not isinstance(error, HydraException)) or "memory" in str(error):
        return None
    return "is not a checkpoint of fairseq"


def require_stored(path: str | Path) -> None:
    """Checks that a zip archive is stored uncompressed, as torch writes it, so that reading it cannot fill the memory.

    Raises:
        UserError: if it is compressed, if its members are larger than the file, or if the pickle is larger than
            ``LARGEST_PICKLE``.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if any(
        member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size for member in members
    ):
        raise UserError("its members are compressed, and a checkpoint's are not")
    if sum(member.file_size for member in members) > Path(path).stat().st_size:
        raise UserError("its members are larger than the file")
    for member in members:
        if member.filename.endswith("/data.pkl") and member.file_size > LARGEST_PICKLE:
            raise UserError(f"{member.file_size:,} bytes of it are not tensors, more than any model needs")


def require_state(state: object) -> None:
    """Checks that a state has the layout of fairseq's checkpoints: parameters, options, counts, times.

    Raises:
        UserError: naming the part that is wrong.
        TypeError, AttributeError, LookupError: if a part has another type; :func:`refusing` handles these, too.
    """
    if not isinstance(state, dict):
        raise TypeError(type(state).__name__)
    for name, tensor in state["model"].items():
        require_dense(name, tensor)
    require_separate_storage(state["model"])
    require_plain("cfg", state.get("cfg"), dict)
    require_plain("args", state.get("args"), Namespace)
    if {"series", "graph", "images"} & entries(state.get("task_state")).keys():
        require_plain("task_state", state["task_state"], dict, MAX_DESCRIPTION)
    require_choices(state.get("args"))
    history, extra = state.get("optimizer_history", [{}])[-1], state.get("extra_state", {})
    epoch = (extra.get("train_iterator") or {}).get("epoch", 1)
    for name, count in {"num_updates": history.get("num_updates", 0), "epoch": epoch}.items():
        if not integer(0, 1 << 53).allows(count):
            raise UserError(f"its {name} is {shown(count)}, but must be a whole number from 0 up")
    for name in ("previous_training_time", "val_loss"):
        number = extra.get(name)
        if isinstance(number, Tensor):  # as training with several processes saves it
            require_dense(name, number)
            number = number.item() if number.numel() == 1 else number
        if not isinstance(number, Real | None):
            raise UserError(f"its {name} is {shown(number)}, but must be a number")
    averaged = state.get("averaged", [])
    if not isinstance(averaged, list) or not all(isinstance(name, str) and name.isprintable() for name in averaged):
        raise UserError("the checkpoints that it averages have invalid names")


def require_separate_storage(parameters: dict[str, Tensor]) -> None:
    """Checks that parameters do not overlap unless they are identical: a small file must not fill the memory.

    Raises:
        UserError: if different parameters share elements.
    """
    stored = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in parameters.values()}
    different = {(tensor.data_ptr(), tensor.shape, tensor.stride()): tensor for tensor in parameters.values()}
    if sum(tensor.numel() * tensor.element_size() for tensor in different.values()) > sum(stored.values()):
        raise UserError("its parameters overlap, and claim more numbers than it holds")


def require_dense(name: object, tensor: object) -> None:
    """Checks that a parameter has a valid name, and is a dense tensor whose storage has all elements of its shape.

    Raises:
        UserError: naming the parameter.
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]{0,999}", name):
        raise UserError("one of its parameters has an invalid name")
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
        raise UserError(f"its parameter {name} is not a tensor of plain numbers")
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise UserError(f"its parameter {name} claims more numbers than it holds")
