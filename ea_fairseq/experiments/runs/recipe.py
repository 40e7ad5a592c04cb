"""Recipes: in flat lines what data a model needs, what it is trained with, and how it is evaluated.

A recipe is a file, or ``DATASET/MODEL``: a file of recipes/models and one of recipes/datasets, of which the sections
``[train SIZE]`` are for the models whose names end in that size.
"""

import csv
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.project import PROJECT
from ea_fairseq.plain.records import is_command

RECIPE = "recipe"  # the copy that train puts beside the checkpoints
RECIPES = Path(__file__).parents[1] / "recipes"
SECTIONS = ("data", "train", "evaluate")
OF_A_SIZE = re.compile(r"^\[train (.*)\]", re.MULTILINE)
LARGEST = 100_000  # bytes of a recipe from others
START = "--finetune-from-model"


@dataclass(frozen=True)
class Recipe:
    """A recipe in one piece.

    Args:
        place: its file, or DATASET/MODEL; errors name it.
        text: with bytes that are not UTF-8 as surrogates.
    """

    place: str
    text: str

    @classmethod
    def find(cls, name: str) -> "Recipe":
        """The recipe that is meant by the path of a file or by DATASET/MODEL; raises UserError where there is none."""
        if Path(name).is_file():
            return cls.read(Path(name).absolute())
        if name in names():
            return cls(name, recipe_text(name))
        raise UserError(f"there is no recipe {name}: give a file, or DATASET/MODEL, which `train --help` lists.")

    @classmethod
    def read(cls, path: Path) -> "Recipe":
        """The recipe in a file."""
        return cls(str(path), text_of(path))

    @classmethod
    def beside(cls, folder: Path) -> "Recipe | None":
        """The recipe that train put beside checkpoints, perhaps others'; None where there is none.

        Raises:
            UserError: where it is a link, or no small file.
        """
        path = folder / RECIPE
        if not path.is_symlink() and not path.exists():
            return None
        if path.is_symlink() or not path.is_file() or path.stat().st_size >= LARGEST:
            raise UserError(f"{path} is not the recipe of a training: put that there, or remove this.")
        return cls.read(path)

    @property
    def is_file(self) -> bool:
        """Whether it is a file, and none of ours."""
        return self.place.startswith("/")

    @property
    def name(self) -> str:
        """DATASET/MODEL, or the name of its file."""
        return Path(self.place).name.removesuffix(".recipe") if self.is_file else self.place

    def flags(self, section: str, allowed: dict[str, bool] | None = None) -> list[str]:
        """The words in a section: of each line the flag, and all that follows it.

        Args:
            allowed: the only flags that it may have, and whether they have a value.

        Raises:
            UserError: naming the line that is none of a recipe, in whichever section.
        """
        found: list[str] = []
        for number, of, line in self.lines():
            if of != section:
                continue
            flag, *value = line.split(maxsplit=1)
            if allowed is not None and allowed.get(flag) is not bool(value):
                raise UserError(
                    f"{self.place}, line {number}: '{line}' is not for a recipe next to checkpoints: only "
                    f"{' '.join(allowed)} may stand there, with their values."
                )
            found += [flag, *value]
        return found

    def lines(self) -> Iterator[tuple[int, str, str]]:
        """Number, section and text of each line that is neither empty nor a comment."""
        section = None
        for number, line in enumerate(map(str.strip, self.text.split("\n")), start=1):
            where = f"{self.place}, line {number}"
            if not line or line.startswith("#"):
                continue
            if line.startswith("["):
                section = line[1:-1]
                if line != f"[{section}]" or section not in SECTIONS:
                    raise UserError(
                        f"{where}: a recipe has no section {line}: its sections are [data], [train] and [evaluate]."
                    )
                continue
            if section is None:
                raise UserError(f"{where}: '{line}' is before the first section: put it below [train].")
            if section != "data" and not line.startswith("--"):
                raise UserError(f"{where}: '{line}' is no flag: write --FLAG VALUE.")
            yield number, section, line

    def data_folder(self) -> Path:
        """The binarised data that the recipe's [data] makes; raises UserError where it is not there."""
        command = self.flags("data")
        if not command:
            raise UserError(f"{self.place} has no section [data]: add it, or name the data with --data.")
        folder = PROJECT / command[-1].split()[-1] / "data-bin"
        if not folder.is_dir():
            raise UserError(
                f"there is no {folder}: make it with \"cd '{PROJECT}' && {' '.join(command)}\", or name the data with "
                "--data."
            )
        return folder

    def training_flags(self, others: list[str]) -> list[str]:
        """The flags of fairseq-train, and others after them, which take their place.

        A checkpoint that one of our recipes starts from is a path of this project; raises UserError where it is not
        there, unless the others name another.
        """
        flags = self.flags("train")
        if not flags:
            raise UserError(f"{self.place} has no section [train]: add it, with the flags of fairseq-train.")
        if START in flags and not self.is_file:
            place = flags.index(START) + 1
            start = PROJECT / flags[place]
            if not start.is_file() and last_value(START, others) is None:
                raise UserError(
                    f"{self.place} starts from {start}, which is not there: make it as docs/encoder-experiments.md "
                    f"or docs/t5.md says, or name another with {START} after the recipe."
                )
            flags[place] = str(start)
        return flags + others


def text_of(path: Path) -> str:
    """The text of a file, its bytes kept."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def last_value(flag: str, words: list[str]) -> str | None:
    """The last value that words give to a flag, empty where it is missing; None where they do not have the flag."""
    found = None
    for word, following in pairwise([*words, ""]):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found


def names() -> list[str]:
    """All DATASET/MODEL: a data set has recipes for the models whose size it has a section [train SIZE] for."""
    found = []
    for dataset in sorted((RECIPES / "datasets").glob("*.recipe")):
        sizes = set(OF_A_SIZE.findall(text_of(dataset)))
        found += [f"{dataset.stem}/{model}" for model in models() if model.rpartition("_")[2] in sizes]
    return found


def described() -> str:
    """All recipes for people: data sets that have the same models in one block, their models beneath."""
    sharing: dict[str, list[str]] = {}
    for dataset, found in groupby((name.split("/") for name in names()), key=itemgetter(0)):
        sharing.setdefault(" ".join(model for _, model in found), []).append(dataset)
    return "\n".join(
        textwrap.fill(text, 116, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for found, datasets in sharing.items()
        for text, indent in ((f"{' '.join(datasets)}:", "  "), (found, "    "))
    )


def recipe_text(name: str) -> str:
    """DATASET/MODEL as one text: what the model's file says, and then the data set's for models of this size."""
    dataset, model = name.split("/")
    lines, of_other_sizes = [], False
    for line in text_of(RECIPES / f"datasets/{dataset}.recipe").removesuffix("\n").split("\n"):
        if line.startswith("["):
            size = OF_A_SIZE.match(line)
            of_other_sizes = size is not None and size[1] != model.rpartition("_")[2]
            line = "[train]" if size else line
        if not of_other_sizes:
            lines.append(f"{line}\n")
    return f"{text_of(RECIPES / f'models/{model}.recipe')}\n{''.join(lines)}"


def data_command(recipe: Path) -> str | None:
    """The command that makes a recipe's data, the last of its words the folder for them; None where it has none."""
    text = recipe.read_text(encoding="utf-8", errors="replace") if recipe.is_file() else ""
    lines = map(str.strip, text.splitlines())
    for line in lines:
        if line == "[data]":
            command = next((line for line in lines if line and not line.startswith("#")), "")
            return command if is_command(command) else None
    return None


def models() -> list[str]:
    """The models that there are recipes of, by name."""
    return sorted(path.stem for path in (RECIPES / "models").glob("*.recipe"))


def model_flags(model: str) -> list[str]:
    """The flags of fairseq-train, in words, by which a model of the recipes differs from all others."""
    return Recipe.read(RECIPES / f"models/{model}.recipe").flags("train")


def ablation() -> dict[str, list[str]]:
    """The rows of the papers' ablation by their labels: the flags that each adds to those of the full model."""
    with (RECIPES / "ablation.tsv").open(encoding="utf-8", newline="") as file:
        return {row["model"]: row["flags"].split() for row in csv.DictReader(file, delimiter="\t")}
