"""``ea-fairseq train``: trains a model by a recipe, resumes the training and records it."""

import os
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TextIO

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_checksum import data_checksum, dictionaries
from ea_fairseq.experiments.runs.recipe import RECIPE, Recipe, described, last_value
from ea_fairseq.experiments.runs.training_run import TrainingRun, record
from ea_fairseq.plain.commands import PROGRAM, Parser
from ea_fairseq.plain.files import replacing, require_path
from ea_fairseq.plain.memory import MEMORY_SETTINGS
from ea_fairseq.plain.output_folder import say, wait_for_lock
from ea_fairseq.plain.processes import program
from ea_fairseq.plain.project import PACKAGE, PROJECT, portable
from ea_fairseq.plain.records import Command

# Flags of the seed, the code, the device, the speed and the log, which are not part of a run's name.
NOT_IN_NAMES = (
    *("--seed", "--user-dir", "--cpu", "--fp16", "--autocast", "--fast-dropout", "--num-workers", "--log-interval"),
    *("--log-format", "--tensorboard-logdir", "--wandb-project"),
)
OWN_FLAGS = ("--autocast", "--fast-dropout")  # of this package's criteria only
LONGEST_NAME = 255  # in bytes, of a folder on most disks
DESCRIPTION = """\
Trains with a recipe, a file or DATASET/MODEL. Flags of fairseq-train after it override the recipe's; the options below
may be anywhere. Checkpoints, the log (train.log), the recipe, and run.json with the exact command and the machine go
into one folder. If interrupted, run it again to resume; a finished training is left as it is."""


def parser() -> Parser:
    """Builds the parser; it does not know the recipe and the flags of fairseq-train, which stay unparsed."""
    options = Parser(
        "train",
        DESCRIPTION,
        f"{PROGRAM} train multi30k-deen/ea_transformer_lite --seed 2\n\n"
        "These flags are not part of a run's name:\n"
        f"{textwrap.indent(textwrap.fill(' '.join(NOT_IN_NAMES), 110), '  ')}\n\n"
        f"recipes, DATASET/MODEL:\n{described()}",
        usage=f"{PROGRAM} train [options] RECIPE [flags of fairseq-train]",
    )
    add = options.add_argument
    text = "folder of the binarised data (default: what the recipe's [data] makes)"
    add("--data", type=Path, metavar="DIR", help=text)
    text = "folder of the training (default: runs/RECIPE/seed-N, with the flags that are part of a run's name)"
    add("--out", type=Path, metavar="DIR", help=text)
    text = "name of the model in tables (default: the recipe's, with the flags that are part of a run's name)"
    add("--model", metavar="NAME", help=text)
    return options


def main() -> None:
    """Becomes fairseq-train, unless the training is finished."""
    args, words = parser().parse_known_args()
    if not words:
        raise UserError("name a recipe: see --help for a list.")
    name, *overrides = words
    if name.startswith("-"):
        raise UserError(f"there is no option {name} before the recipe: see --help.")
    recipe = Recipe.find(name)
    if last_value("--save-dir", overrides) is not None:
        raise UserError("--save-dir is set by train itself: name the folder with --out.")
    data = find_data(args.data, recipe)
    flags = recipe.training_flags(overrides)
    require_own_criterion(flags)
    seed = last_value("--seed", flags) or ""
    if not re.fullmatch("[0-9]+", seed):
        raise UserError(f"--seed needs a whole number, not '{seed}': give it, or add it to [train] of {recipe.place}.")
    different = distinguishing(overrides)
    out = args.out or PROJECT / f"runs/{recipe.name}{as_folder(different)}/seed-{seed}"
    out = out.absolute()
    if any(len(os.fsencode(name)) > LONGEST_NAME for name in require_path(out).parts):
        raise UserError("the name of the folder is too long for a disk: name another with --out.")
    fairseq_train = program("fairseq-train")
    command = ["fairseq-train", str(data), "--user-dir", str(PACKAGE), "--save-dir", str(out)]
    command += ["--log-file", f"{out}/train.log", "--log-format", "json", *flags]
    with locked(out):
        training = TrainingRun(
            model=args.model or recipe.name.rpartition("/")[2] + different,
            recipe=recipe.name,
            overrides=overrides,
            command=command,
            starts=[],
            called=Command(portable(shlex.join([PROGRAM, "train", *sys.argv[1:]]))),
            data=data_checksum(data),
            dictionaries=dictionaries(data),
        )
        if not record(training, out):
            say(f"{out}: all is trained, nothing to do")
            return
        with replacing(out / RECIPE) as unfinished:
            unfinished.write_bytes(recipe.text.encode("utf-8", "surrogateescape"))
        os.execve(fairseq_train, [str(fairseq_train), *command[1:]], os.environ | MEMORY_SETTINGS)


def require_own_criterion(flags: list[str]) -> None:
    """Raises UserError if flags of this package's criteria are given to fairseq's own criterion."""
    criterion = last_value("--criterion", flags)
    for flag in OWN_FLAGS:
        if criterion == "label_smoothed_cross_entropy" and last_value(flag, flags) is not None:
            raise UserError(f"{flag} is not for fairseq's criterion: add --criterion ea_{criterion}, the same loss.")


def find_data(folder: Path | None, recipe: Recipe) -> Path:
    """Returns the binarised data: the folder given, or what the recipe makes; raises UserError if it is missing."""
    if folder and not folder.is_dir():
        raise UserError(f"--data: there is no folder {folder}.")
    return require_path(folder.absolute() if folder else recipe.data_folder())


def distinguishing(flags: list[str]) -> str:
    """Returns the words that distinguish models, each after a space; values are kept or dropped with their flags."""
    kept, found = True, ""
    for word in flags:
        if word.startswith("--"):
            kept = word.partition("=")[0] not in NOT_IN_NAMES
        found += f" {word}" if kept else ""
    return found


def as_folder(words: str) -> str:
    """Turns words into the name of a folder, without spaces."""
    return re.sub("[^A-Za-z0-9.-]+", "_", words)


def locked(out: Path) -> TextIO:
    """Makes a folder and locks it once no other training uses it; fairseq-train inherits the lock."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / "lock").open("a")
    except OSError:
        raise UserError(f"cannot write in {out}: check its permissions and the space on its disk.") from None
    wait_for_lock(lock, lambda: say(f"waiting for another run in {out} to end"))
    os.set_inheritable(lock.fileno(), True)
    return lock
