"""Averages of checkpoints: chooses checkpoints, and averages their parameters into one model."""

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from math import isfinite
from operator import add
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import read_data
from ea_fairseq.plain.commands import Parser, at_least

EPOCH = re.compile(r"checkpoint(\d+)\.pt")
UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt")
ANY = re.compile(r"checkpoint.*\.pt")
EXAMPLE = "ea-fairseq average runs/multi30k/ea_transformer_lite --last 5 --output average.pt"


def last(folder: Path, count: int, *patterns: re.Pattern[str]) -> list[Checkpoint]:
    """Returns the last checkpoints by number, of the first pattern that any file matches, without averages."""
    matches = ([match for path in folder.iterdir() if (match := pattern.fullmatch(path.name))] for pattern in patterns)
    names = sorted(next(filter(None, matches), []), key=lambda name: int(name[1]), reverse=True)
    found = list(islice(trained(folder / name[0] for name in names), count))
    require(folder, found, count)
    return found[::-1]


def best(folder: Path, count: int) -> list[Checkpoint]:
    """Returns the best checkpoints by validation, each once if it has several names; ties go to the later one."""
    paths = sorted((path for path in folder.iterdir() if ANY.fullmatch(path.name)), reverse=True)
    by_updates = {checkpoint.updates: checkpoint for checkpoint in trained(paths)}
    scored = [(found.validation, found) for found in by_updates.values() if found.validation is not None]
    scored = [(score, found) for score, found in scored if isfinite(score)]
    require(folder, scored, count)
    sign = 1 if scored[0][1].options("checkpoint").get("maximize_best_checkpoint_metric") else -1
    ranked = sorted(scored, key=lambda pair: (sign * pair[0], pair[1].updates))
    return [found for _, found in ranked[-count:]]


def trained(paths: Iterable[Path]) -> Iterator[Checkpoint]:
    """Returns the checkpoints that a training wrote, without averages; each is only read when it is needed."""
    return (checkpoint for checkpoint in map(Checkpoint.read, paths) if "averaged" not in checkpoint.state)


def require(folder: Path, found: Sequence[object], count: int) -> None:
    """Raises UserError if a folder has fewer checkpoints than wanted."""
    if not found and (folder / "checkpoint_last.pt").is_file():
        raise UserError(
            f"{folder} has no checkpoints but the last and the best: train to the end of an epoch, without "
            "--no-epoch-checkpoints."
        )
    if not found:
        raise UserError(f"{folder} has no checkpoints to average: give the --save-dir of a training.")
    if len(found) < count:
        raise UserError(f"{folder} has {len(found)} checkpoints to average, not {count}: ask for fewer.")


def in_order(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Sorts checkpoints into the order of summation, whatever order they were given in."""
    return sorted(checkpoints, key=lambda checkpoint: (checkpoint.updates, checkpoint.path.resolve()))


def average(checkpoints: list[Checkpoint], half: bool = False) -> dict[str, Any]:
    """Returns the state of the last checkpoint, with the mean of all models and without the optimizer.

    Args:
        half: whether the mean is in float16, which takes half the space.

    Raises:
        UserError: naming the first parameter that two checkpoints do not share.
    """
    checkpoints = in_order(checkpoints)
    latest = checkpoints[-1]
    for other in checkpoints[:-1]:
        require_same_model(other, latest)
    means: dict[tuple[object, ...], Tensor] = {}
    model = latest.state["model"].copy()
    for name in model:
        tensors = [checkpoint.state["model"][name] for checkpoint in checkpoints]
        place = tuple((tensor.data_ptr(), tensor.shape) for tensor in tensors)  # tied parameters stay tied
        if place not in means:
            means[place] = mean(tensors, torch.float16 if half else None)
        model[name] = means[place]
    kept = {name: part for name, part in latest.state.items() if name != "last_optimizer_state"}
    return kept | {"model": model, "averaged": [checkpoint.path.name for checkpoint in checkpoints]}


def mean(tensors: list[Tensor], dtype: torch.dtype | None = None) -> Tensor:
    """Returns the mean, computed in float64, in the dtype of the last by default; for integers, returns the last."""
    latest = tensors[-1]
    if not latest.is_floating_point():
        return latest.clone()
    return (reduce(add, (tensor.double() for tensor in tensors)) / len(tensors)).to(dtype or latest.dtype)


def require_same_model(one: Checkpoint, other: Checkpoint) -> None:
    """Raises UserError naming the first parameter that two checkpoints do not share."""
    ours, theirs = one.state["model"], other.state["model"]
    for name in [*ours, *theirs]:
        sizes = [" x ".join(map(str, model[name].shape)) if name in model else "missing" for model in (ours, theirs)]
        if sizes[0] != sizes[1]:
            raise UserError(
                f"{one.path} and {other.path} are of different models and cannot be averaged: {name} is {sizes[0]} "
                f"in the one, {sizes[1]} in the other."
            )


def chosen(args: Namespace) -> list[Checkpoint]:
    """Returns the checkpoints that the arguments ask for."""
    if not (args.last or args.last_updates or args.best):
        return [Checkpoint.read(path) for path in args.checkpoints]
    folder = args.checkpoints[0]
    if not folder.exists():
        raise UserError(f"there is no folder {folder}: give that of a training's checkpoints.")
    if len(args.checkpoints) > 1 or not folder.is_dir():
        raise UserError("--last, --last-updates and --best need one folder of checkpoints, and not files.")
    if args.best:
        return best(folder, args.best)
    return last(folder, args.last, EPOCH, UPDATES) if args.last else last(folder, args.last_updates, UPDATES)


def main() -> None:
    """Averages checkpoints and lists them."""
    parser = Parser(
        "average",
        "Averages the parameters of checkpoints, in float64 whatever their precision. The result translates, but no\n"
        "training resumes from it: it has no optimizer.",
        EXAMPLE,
    )
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT", help="files, or a folder of them")
    which = parser.add_mutually_exclusive_group()
    counts = {
        "--last": "the last N epochs of the folder (checkpointN.pt), or if it has none, like --last-updates",
        "--last-updates": "the last N that were saved by updates (checkpoint_E_U.pt)",
        "--best": "the N best by validation, whatever their names",
    }
    for flag, text in counts.items():
        which.add_argument(flag, type=at_least(1), metavar="N", help=text)
    parser.add_argument("--half", action="store_true", help="write float16, which takes half the space")
    parser.add_argument("--data", type=Path, metavar="DATA_BIN", help="refuse a model of other languages or vocabulary")
    parser.add_user_dir()
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the checkpoint to write")
    args = parser.parse_args()
    write_average(chosen(args), args.output, args.data, args.half)


def write_average(checkpoints: list[Checkpoint], output: Path, data: Path | None = None, half: bool = False) -> None:
    """Writes the average of checkpoints, in float16 if ``half``, and prints which they are.

    Raises:
        UserError: if the model has other languages or another vocabulary than the data.
    """
    checkpoints = in_order(checkpoints)
    if data:
        checkpoints[-1].require_data(read_data(data))
    Checkpoint(output, average(checkpoints, half)).write()
    print(f"the average of {len(checkpoints)} checkpoints:" if len(checkpoints) > 1 else "one checkpoint:")
    print(*(f"  {printable(str(checkpoint))}" for checkpoint in checkpoints), sep="\n")
