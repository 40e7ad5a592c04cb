"""Shared code of imports of published weights: reads untrusted files, and writes a folder whole."""

import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ea_fairseq.checkpoint.file import refusing
from ea_fairseq.checkpoint.released import read_tensors
from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.files import require_path
from ea_fairseq.plain.records import Record, as_record, read_json
from ea_fairseq.plain.text_lines import named_in_errors

FORMAT = 3.0  # fairseq's version number of the parameters' format
UNTRAINED = {"num_updates": 0, "lr_scheduler_state": {}, "criterion_name": "", "optimizer_name": ""}  # fairseq needs it


def read_config(kind: type[Record], path: Path, noun: str) -> Record:
    """Reads a model's config.json; ``noun`` is what messages call the model.

    Raises:
        UserError: naming what is wrong.
    """
    if not path.is_file():
        raise UserError(f"there is no {path}, which has the number of heads: put it next to the weights.")
    try:
        return as_record(kind, read_json(path))
    except ValueError as error:
        raise UserError(f"{path} is not of a {noun} that can be imported: {error}.") from None


def read_weights(path: Path, noun: str) -> dict[str, Tensor]:
    """Reads the tensors of a model.safetensors; raises UserError naming the file if it is missing or invalid."""
    if not path.is_file():
        raise UserError(f"there is no {path}: give the model.safetensors of a {noun}.")
    with refusing(path):
        return read_tensors(path)


def renamed(
    tensors: Mapping[str, Tensor],
    fairseq_name: Callable[[str], str | None],
    is_unread: Callable[[str], object],
    path: Path,
    noun: str,
    prefix: str = "",
) -> dict[str, Tensor]:
    """Returns the tensors in float32 by fairseq's names.

    Args:
        fairseq_name: returns fairseq's name of a tensor, or None if it has none.
        is_unread: whether a tensor without such a name is left out.
        prefix: that names may have.

    Raises:
        UserError: naming the tensor that is unknown, there twice, or not finite.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own = fairseq_name(name)
        if own in found:
            raise UserError(f"{path} has {printable(name)} twice, with and without the prefix {prefix}")
        if own:
            found[own] = finite(tensor, f"{path}: its {name}")
        elif not is_unread(name):
            raise UserError(f"{path} has {printable(name)[:100]}, which no {noun} has: give the weights of a {noun}.")
    return found


def finite(tensor: Tensor, what: str) -> Tensor:
    """Returns the tensor in float32; raises UserError if it has whole numbers, or numbers that are not finite."""
    if not tensor.is_floating_point():
        raise UserError(f"{what} is of whole numbers, but weights must be floating-point numbers.")
    tensor = tensor.float()
    if not tensor.isfinite().all():
        raise UserError(f"{what} has numbers that are not finite.")
    return tensor


def require_sizes(config: object, sizes: Mapping[str, int], path: Path) -> None:
    """Raises UserError if config.json gives other sizes than the weights have; None is no size."""
    for name, size in sizes.items():
        if (named := getattr(config, name)) not in (None, size):
            raise UserError(
                f"{path} and its config.json are of two models: '{name}' is {named:,} there, and the weights have "
                f"{size:,}."
            )


def require_new(out: Path) -> None:
    """Raises UserError if the output folder exists already, or if fairseq cannot read its name."""
    require_path(out)
    if out.exists():
        raise UserError(f"{out} is there already: give a new folder.")


def checkpoint_state(args: Namespace, parameters: dict[str, Tensor]) -> dict[str, Any]:
    """The state of a checkpoint of a model that fairseq has not trained yet."""
    extra_state = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}}
    return {"args": args, "model": parameters, "optimizer_history": [UNTRAINED], "extra_state": extra_state}


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """Yields a folder to write to, which becomes ``out`` in the end; on failure, nothing of it is left."""
    unfinished = out.with_name(f"{out.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with named_in_errors(unfinished):
            unfinished.mkdir(parents=True)
            yield unfinished
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
