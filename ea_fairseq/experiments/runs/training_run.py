"""run.json: the record of a training by ea-fairseq train, with its recipe, command and machines."""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from os.path import relpath
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.environment import commit, gpus, processor, versions
from ea_fairseq.experiments.runs.data_checksum import data_checksum, dictionaries, is_same
from ea_fairseq.experiments.runs.training_log import NAME as LOG
from ea_fairseq.experiments.runs.training_log import length
from ea_fairseq.plain.files import own_file, write_whole
from ea_fairseq.plain.records import MEGABYTE, Command, as_record, read_json, written_by

NAME, LAST = "run.json", "checkpoint_last.pt"
LENGTHS = ("--max-update", "--max-epoch")
ENDS = {*LENGTHS, "--patience", "--stop-time-hours"}
DATA = "the data"  # names the arguments before the first flag
FOLDER, LOG_FILE, USER_DIR, OURS = "--save-dir", "--log-file", "--user-dir", "ea_fairseq"
SHOWN = 3  # differences, at most, in an error message
Values = tuple[str, ...] | None  # of a flag; None if it is not given


@dataclass(frozen=True)
class Start:
    """A start of a training; all but the first resume it.

    Args:
        time: in UTC.
        commit: of this project, with ``+`` if files were changed.
        device: GPUs, or the processor if there are none.
    """

    time: str
    commit: str | None
    device: str
    versions: dict[str, str]

    @classmethod
    def now(cls) -> "Start":
        """Returns the start of a training now, on this machine."""
        device = ", ".join(gpus()) or processor()
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), commit(), device, versions())


@dataclass(frozen=True)
class TrainingRun:
    """A training in a folder.

    Args:
        model: its name in tables, the same for all seeds.
        recipe: its name or path.
        overrides: the flags given in addition to the recipe's.
        command: the exact call of fairseq-train, as a list of arguments.
        starts: of this training, in order.
        called: the call of ea-fairseq train, to be typed in the project's folder; None if it is not known.
        data: its checksum, see data_checksum.py.
        dictionaries: the SHA-256 of each of the data's dictionaries; None if an earlier version wrote this.
    """

    model: str
    recipe: str
    overrides: list[str]
    command: list[str]
    starts: list[Start]
    called: Command | None = None
    data: str | None = None
    dictionaries: dict[str, str] | None = None

    @classmethod
    def read(cls, folder: Path) -> "TrainingRun | None":
        """Reads what ea-fairseq train wrote into a folder; None if it wrote nothing."""
        path = folder / NAME
        if not path.is_file():
            return None
        file = own_file(path, MEGABYTE)
        with written_by("ea-fairseq train", path, "give another folder"):
            training = as_record(cls, read_json(file))
            if not training.starts:
                raise ValueError("it has no start")
            return training

    @property
    def project(self) -> Path | None:
        """This project's folder at the time of the training; it may have moved since. None if it was not recorded."""
        ours = [Path(word) for flag, word in pairwise(self.command) if flag == USER_DIR and Path(word).name == OURS]
        return ours[0].parent if ours else None

    def write(self, folder: Path) -> None:
        """Writes run.json, whole or not at all."""
        write_whole(folder / NAME, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def model_names(paths: Sequence[Path], others: Iterable[str]) -> list[str]:
    """Returns the names that ea-fairseq train gave the models, or else ``others``; the paths if two names are equal.

    Args:
        paths: of folders, or of checkpoints in them.
    """
    runs = [TrainingRun.read(path if path.is_dir() else path.parent) for path in paths]
    names = [run.model if run else other for run, other in zip(runs, others, strict=True)]
    return names if len({*names}) == len(names) else list(map(str, paths))


def require_dictionaries(folder: Path, data: Path) -> None:
    """Raises UserError if a data folder has other dictionaries, even of the same size, than the model in a folder."""
    run = TrainingRun.read(folder)
    if run is None:
        return
    if run.dictionaries is None:
        same = is_same(run.data, data_checksum(data)) is not False
    else:
        same = all(run.dictionaries.get(name, found) == found for name, found in dictionaries(data).items())
    if not same:
        raise UserError(
            f"{data} is not what the model was trained on, or was made anew since: give that data, or train again."
        )


def record(run: TrainingRun, folder: Path) -> bool:
    """Adds a start to the record of a folder, unless its training is finished and is not to end later.

    Returns:
        Whether there is something to train.

    Raises:
        UserError: if the folder has checkpoints of another training, or this one is already beyond the end asked for.
    """
    before, log = TrainingRun.read(folder), folder / LOG
    different, saved = difference(before, run), any(folder.glob("checkpoint*.pt"))
    if different and saved:
        remedy = "" if is_trained(folder) else ", or remove that folder"
        raise UserError(f"{folder} holds {different}: give another --out{remedy}.")
    starts: list[Start] = []
    other_end = False
    if before and saved:
        starts = before.starts
        other_end = not ENDS.isdisjoint(different_flags(before.command, run.command))
        if other_end:
            require_later_end(run, folder)
    else:
        log.unlink(missing_ok=True)
    if is_trained(folder):
        if not other_end:
            require_last(run, folder)
            return False
        with log.open("a", encoding="utf-8") as file:  # its last line said that the training was done
            file.write("to another end\n")
    replace(run, starts=[*starts, Start.now()]).write(folder)
    return True


def difference(before: TrainingRun | None, run: TrainingRun) -> str | None:
    """Says what a folder holds instead of the same training; None if it is the same, perhaps with another end."""
    if before is None:
        return "other checkpoints"
    same_data = is_same(before.data, run.data)
    ignored = ENDS | ({DATA} if same_data else set())
    found = sorted(item for item in different_flags(before.command, run.command).items() if item[0] not in ignored)
    if found:
        parts = [f"{flag} {shown(there)} there, {shown(here)} here" for flag, (there, here) in found[:SHOWN]]
        parts += [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        return f"a training by another command ({'; '.join(parts)})"
    if same_data is False:
        return f"a training on what {run.command[1]} was before it was made anew"
    return None


def shown(values: Values) -> str:
    """Formats the values of a flag for a message."""
    return "not given" if values is None else shlex.join(values) or "given"


def require_later_end(run: TrainingRun, folder: Path) -> None:
    """Raises UserError if a command ends before what is trained: it would not have made the model that is there."""
    flags = flags_of(run.command)
    for flag, trained in zip(LENGTHS, length(folder), strict=True):
        asked = "".join(flags.get(flag, ()))
        if asked.isdecimal() and 0 < int(asked) < trained:
            raise UserError(f"{folder} is trained beyond {flag} {asked}, to {trained}: give another --out.")


def require_last(run: TrainingRun, folder: Path) -> None:
    """Raises UserError if the last checkpoint of a finished training is missing."""
    if "--no-last-checkpoints" not in run.command and not (folder / LAST).is_file():
        raise UserError(
            f"{folder} was trained to its end, and its {LAST} is gone: put it back, or remove that folder and train "
            "again."
        )


def is_trained(folder: Path) -> bool:
    """Whether fairseq finished the training in a folder; if started again, one that stopped early would go on."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    return "done training" in text.rstrip().rpartition("\n")[2]


def flags_of(command: list[str]) -> dict[str, tuple[str, ...]]:
    """Returns the last values of each flag in a call of fairseq-train."""
    found: dict[str, tuple[str, ...]] = {}
    name = DATA
    for word in command[1:]:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = (value,) if equals else ()
        else:
            found[name] = (*found.get(name, ()), word)
    return found


def different_flags(before: list[str], now: list[str]) -> dict[str, tuple[Values, Values]]:
    """Returns the flags in which two calls differ, with both values, except the training's folder and our user-dir.

    Two paths are the same if they lead to the same place, or are the same relative to the folders of the trainings.
    """
    calls = flags_of(before), flags_of(now)
    folders = ["".join(call.pop(FOLDER, ())[-1:]) for call in calls]
    for call in calls:
        call.pop(LOG_FILE, None)
        if Path(*call.get(USER_DIR, ())).name == OURS:
            del call[USER_DIR]

    def are_same(one: str, other: str) -> bool:
        if one == other or not (one.startswith("/") and other.startswith("/")):
            return one == other
        if Path(one).resolve() == Path(other).resolve():
            return True
        return all(folders) and relpath(one, folders[0]) == relpath(other, folders[1])

    found: dict[str, tuple[Values, Values]] = {}
    for flag in calls[0].keys() | calls[1].keys():
        one, other = calls[0].get(flag), calls[1].get(flag)
        if one is None or other is None or len(one) != len(other) or not all(map(are_same, one, other)):
            found[flag] = one, other
    return found
