"""results.json: what ea-fairseq evaluate writes for a trained model, and report turns into tables and figures."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path

from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.files import own_file, write_whole
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.records import MEGABYTE, Command, FileName, as_record, read_json, written_by
from ea_fairseq.plain.text_lines import writing

NAME = "results.json"
RELEASED = "released"  # folder of the evaluation of a released model, next to that of its training
TRANSLATION = "translation.txt"
REFERENCE = "reference.txt"
SOURCE = "source.txt"
TOKENIZED = ("translation.tok.txt", "reference.tok.txt")
COUNTS = "counts.tsv"
PREDICTIONS = "predictions.tsv"  # of encoders
AGAIN = "evaluate the model again"
COLUMNS, MOST = 10, 1 << 31  # of counts.tsv, and a number that no count reaches
LARGEST, LARGEST_TEXT = 10 * MEGABYTE, 1000 * MEGABYTE
Setting = str | int | float | bool | None
Column = tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """A score with its definition.

    Args:
        score: in points, as it is printed.
        detail: all that the scoring tool prints, such as BLEU's precisions and brevity penalty.
        signature: sacreBLEU's signature.
    """

    score: float
    detail: str
    signature: str


@dataclass(frozen=True)
class Dataset:
    """Binarised data.

    Args:
        name: of the data set, such as ``iwslt14-deen``.
        source_lang, target_lang: None if nothing is translated.
        subset: the one that was translated or predicted, ``test`` or ``valid``.
        manifest: SHA-256 of manifest.json, or None if there is none.
        checksum: SHA-256 of the dictionaries and the subset; equal if two models were scored on the same data.
    """

    name: FileName
    source_lang: str | None
    target_lang: str | None
    subset: str
    manifest: str | None
    checksum: str


@dataclass(frozen=True)
class Point:
    """A point of a learning curve.

    Args:
        updates: so far.
        seconds: since the training began, validations and earlier starts included.
        loss: label-smoothed, in bits per target token, as fairseq logs it.
        bleu: on the validation set, if the training measured it.
    """

    updates: int
    seconds: float
    loss: float
    bleu: float | None = None


@dataclass(frozen=True)
class Results:
    """Everything that tables and figures show of one trained model, in texts that are safe to print.

    Args:
        folder: of results.json. It also has the raw sources, the translations and references, raw and as tokens, one
            sentence per line, and counts.tsv, tokenized BLEU's counts for each sentence; for encoders, it has
            predictions.tsv.
        model: its name in tables, the same for all seeds.
        arch: fairseq's ``--arch``.
        settings: the options that distinguish the model from others, such as ``ea_alpha``.
        recipe: the one that it was trained with, or None.
        updates, epochs, seconds: of the training; seconds are wall-clock time.
        parameters, flops: in the papers' convention, see ea_fairseq.analysis.cost.
        checkpoints: those that were averaged, or the only one.
        search: the options of the beam search.
        scores: by name, such as ``tokenized BLEU``; see experiments.scoring.scores.
        training_command: the call of fairseq-train that trained it.
        commands: our commands that prepared the data, trained and evaluated, in this order, to be typed in the
            project's folder; the first one or two are left out if they are not known.
        training_device, device: on which the model was trained and evaluated.
        versions: of Python, torch, fairseq and sacreBLEU at the evaluation.
        commit: of this project at the evaluation, with ``+`` if files were changed.
        train_curve, valid_curve: points in the order of updates.
        family: the model's, as ea_fairseq.attention.registry names it; None for fairseq's Transformer, and for an
            encoder without a mechanism.
        task: fairseq's ``--task``.
    """

    folder: Path
    model: str
    arch: str
    settings: dict[str, Setting]
    recipe: str | None
    seed: int
    updates: int
    epochs: int
    seconds: float
    parameters: int
    flops: int
    dataset: Dataset
    checkpoints: list[str]
    search: dict[str, float]
    scores: dict[str, Score]
    training_command: Command | None
    commands: list[Command]
    training_device: str | None
    device: str
    versions: dict[str, str]
    commit: str | None
    train_curve: list[Point]
    valid_curve: list[Point]
    family: str | None = None
    task: str = "translation"

    @property
    def translates(self) -> bool:
        """Whether the model translates, and does not predict labels, numbers or masked words."""
        return self.task == "translation"

    @property
    def has_mechanism(self) -> bool:
        """Whether the model is of a family of ours, not a baseline; early results do not record the family."""
        return self.family is not None or "ea_alpha" in self.settings

    def differs_in(self, other: "Results") -> list[str]:
        """Returns the names of settings that differ.

        A setting that only one of the two versions knows differs only if its training was given the flag.
        """
        ours, theirs = self.settings, other.settings
        differing = [name for name in ours if theirs.get(name, ours[name]) != ours[name]]
        for one, beside in ((self, other), (other, self)):
            flags = (one.training_command or "").split()
            differing += [name for name in one.settings.keys() - beside.settings.keys() if flag_of(name) in flags]
        return differing

    @property
    def length(self) -> str:
        """The length of the training in words: ``918 updates, 2 epochs``."""
        return f"{self.updates:,} update{'s' * (self.updates != 1)}, {self.epochs} epoch{'s' * (self.epochs != 1)}"

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Reads results.json, given as a file or by its folder.

        Raises:
            UserError: naming the file, if it is missing or not what ea-fairseq evaluate writes.
        """
        path = path / NAME if path.is_dir() else path
        if not path.is_file():
            raise UserError(f"there is no {path}: evaluate the model first, with ea-fairseq evaluate.")
        file = own_file(path, LARGEST)
        with written_by("ea-fairseq evaluate", path, "evaluate again"):
            found = as_record(cls, shown(read_json(file, LARGEST)), folder=path.parent)
            found.check()
            trained_on = found.training_device and one_core(found.training_device)
            return replace(found, device=one_core(found.device), training_device=trained_on)

    def check(self) -> None:
        """Raises ValueError if tables cannot be made from these results."""
        if self.parameters < 1:
            raise ValueError("'parameters' must be at least 1")
        if not all(isfinite(score.score) for score in self.scores.values()):
            raise ValueError("'scores' must be finite")
        if self.translates and not {"beam", "lenpen"} <= self.search.keys():
            raise ValueError("'search' must have 'beam' and 'lenpen'")

    def write(self) -> None:
        """Writes results.json into the folder, whole or not at all."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "folder"}
        text = json.dumps(found, indent=1, default=asdict, ensure_ascii=False)
        write_whole(self.folder / NAME, text + "\n")

    def keep(self, folder: Path) -> None:
        """Writes results.json and, if there are any, the counts of sentences into another folder."""
        if self.has(COUNTS):
            shutil.copyfile(own_file(self.folder / COUNTS, LARGEST), folder / COUNTS)
        replace(self, folder=folder).write()

    def raw(self) -> tuple[list[str], list[str]]:
        """Reads the lines of raw translations and references; raises UserError if they are not next to results.json."""
        return lines_of(self.folder, TRANSLATION), lines_of(self.folder, REFERENCE)

    def tokens(self) -> tuple[list[str], list[str]]:
        """Reads translations and references as tokens of the data, with subwords joined."""
        return lines_of(self.folder, TOKENIZED[0]), lines_of(self.folder, TOKENIZED[1])

    def counts(self) -> list[list[int]]:
        """Reads tokenized BLEU's counts for each sentence; raises UserError if counts.tsv is missing or invalid."""
        lines = lines_of(self.folder, COUNTS)
        try:
            rows = [list(map(int, line.split("\t"))) for line in lines]
            if not all(len(row) == COLUMNS and all(0 <= number < MOST for number in row) for row in rows):
                raise ValueError
            return rows
        except ValueError:
            raise UserError(f"{self.folder / COUNTS} is not what ea-fairseq evaluate writes: evaluate again.") from None

    def has(self, name: str) -> bool:
        """Whether a file is next to results.json."""
        return (self.folder / name).is_file()


def lines_of(folder: Path, name: str, largest: int = LARGEST_TEXT) -> list[str]:
    """Reads the lines of a text next to results.json; raises UserError if it is missing or not text."""
    path = folder / name
    if not path.is_file():
        raise UserError(f"there is no {path}: keep it next to {NAME}, or {AGAIN}.")
    try:
        return own_file(path, largest).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not what ea-fairseq evaluate writes, for it is not UTF-8: {AGAIN}.") from None


def write_predictions(path: Path, header: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    """Writes predictions.tsv: a line for each example, with its target and its prediction."""
    with writing(path) as write_line:
        for row in (header, *rows):
            write_line("\t".join(map(str, row)))


def read_predictions(folder: Path) -> tuple[Column, Column]:
    """Reads the two columns of a folder's predictions.tsv: targets and predictions.

    Raises:
        UserError: naming the file, if it is missing or not what ea-fairseq evaluate writes.
    """
    _, *lines = lines_of(folder, PREDICTIONS, LARGEST)
    try:
        labels, predictions = zip(*(line.split("\t") for line in lines), strict=True)
    except ValueError:
        raise UserError(f"{folder / PREDICTIONS} is not what ea-fairseq evaluate writes: {AGAIN}.") from None
    return labels, predictions


def one_core(device: str) -> str:
    """A device in words, with "1 core" where early results have "1 cores"."""
    return device.replace(" 1 cores", " 1 core")


def shown(found: object) -> object:
    """Returns a value from JSON with terminal control characters escaped in all texts."""
    if isinstance(found, dict):
        return {printable(name): shown(value) for name, value in found.items()}
    if isinstance(found, list):
        return list(map(shown, found))
    return printable(found) if isinstance(found, str) else found
