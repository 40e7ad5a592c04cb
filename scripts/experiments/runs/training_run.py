"""run.json: what train.sh started in a folder, by which recipe, with which command, on which machine."""

import json
import shlex
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from manifest import sha256
from step import StepError, run
from whole_files import replacing

from experiments.arguments import Parser
from experiments.environment import commit, gpus, processor, versions
from experiments.own_file import own_file
from experiments.records import MEGABYTE, Command, as_record, read_json

NAME = "run.json"
ENDS = ("--max-update", "--max-epoch", "--patience", "--stop-time-hours")
LOG = "train.log"


@dataclass(frozen=True)
class Start:
    """A start of a training; all but the first resume it.

    Args:
        time: in UTC.
        commit: of this project, with ``+`` where files were changed.
        device: GPUs, or the processor where there are none.
    """

    time: str
    commit: str | None
    device: str
    versions: dict[str, str]

    @classmethod
    def now(cls) -> "Start":
        """The start of a training at this moment, on this machine."""
        device = ", ".join(gpus()) or processor()
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), commit(), device, versions())


@dataclass(frozen=True)
class TrainingRun:
    """A training in a folder.

    Args:
        model: its name in tables, the same for all seeds.
        recipe: its name or path.
        overrides: the flags given beside the recipe's.
        command: the exact call of fairseq-train, in words.
        starts: of this training, in order.
        called: the call of train.sh, to be typed in the project's folder, where that is known.
        data: SHA-256 of the data's manifest.json, where it has one.
    """

    model: str
    recipe: str
    overrides: list[str]
    command: list[str]
    starts: list[Start]
    called: Command | None = None
    data: str | None = None

    @classmethod
    def read(cls, folder: Path) -> "TrainingRun | None":
        """Reads what train.sh wrote into a folder, None where it wrote nothing."""
        path = folder / NAME
        if not path.is_file():
            return None
        try:
            training = as_record(cls, read_json(own_file(path, MEGABYTE)))
            if not training.starts:
                raise ValueError("it has no start")
        except ValueError as error:
            raise StepError(f"{path} is not what scripts/train.sh writes ({error}): give another folder.") from None
        return training

    def write(self, folder: Path) -> None:
        """Writes run.json, whole or not at all."""
        with replacing(folder / NAME) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record(run: TrainingRun, folder: Path) -> bool:
    """Adds a start to the training in a folder, unless all is trained; with another end, the training goes on.

    Returns:
        Whether there is something to train.

    Raises:
        StepError: where the folder holds another training, with checkpoints that would be lost.
    """
    before = TrainingRun.read(folder)
    what = what_else(before, run)
    if what:
        if any(folder.glob("checkpoint*.pt")):
            raise StepError(f"{folder} holds {what}: give another --out, or remove that folder.")
        (folder / LOG).unlink(missing_ok=True)
        before = None
    elif is_trained(folder):
        if before.command == run.command:
            return False
        with (folder / LOG).open("a", encoding="utf-8") as log:  # whose last line said that all is trained
            log.write("to another end\n")
    replace(run, starts=[*(before.starts if before else []), Start.now()]).write(folder)
    return True


def what_else(before: TrainingRun | None, run: TrainingRun) -> str | None:
    """What a folder holds that is not the same training, whenever that ends; None where it is the same."""
    if before is None:
        return "other checkpoints"
    if without_ends(before.command) != without_ends(run.command):
        return f"a training by another command ({shlex.join(before.command)})"
    if None not in (before.data, run.data) and before.data != run.data:
        return f"a training on what {run.command[1]} was before it was made anew"
    return None


def without_ends(command: list[str]) -> list[str]:
    """A call of fairseq-train without the flags that say when it ends."""
    kept, words = [], iter(command)
    for word in words:
        if word in ENDS:
            next(words, None)
        elif word.partition("=")[0] not in ENDS:
            kept.append(word)
    return kept


def is_trained(folder: Path) -> bool:
    """Whether fairseq has ended the training in a folder; where it may stop early, it would go on if started again."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    return "done training" in text.rstrip().rpartition("\n")[2]


def main() -> None:
    parser = Parser("training_run.py", "Writes run.json for scripts/train.sh.", "see scripts/train.sh")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--called", required=True)
    parser.add_argument("--overrides", type=int, default=0, help="how many of the last words are overrides")
    parser.add_argument("command", nargs="+", help="the call of fairseq-train, after --")
    args = parser.parse_args()
    overrides = args.command[len(args.command) - args.overrides :]
    manifest = Path(args.command[1]) / "manifest.json"
    data = sha256(manifest) if manifest.is_file() else None
    if not record(TrainingRun(args.model, args.recipe, overrides, args.command, [], args.called, data), args.folder):
        print(f"{args.folder}: all is trained, nothing to do")


if __name__ == "__main__":
    run(main)
