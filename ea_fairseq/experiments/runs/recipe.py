"""Recipes: text files that say which data a model needs, how it is trained, and how it is evaluated.

A recipe is a file, or ``DATASET/MODEL``, which combines a file of recipes/models with one of recipes/datasets. In the
latter, a section ``[train SIZE ...]`` applies only to models whose names end in one of these sizes.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.files import read_tsv
from ea_fairseq.plain.project import PROJECT

RECIPE = "recipe"  # the copy that train writes next to the checkpoints
RECIPES = Path(__file__).parents[1] / "recipes"
SECTIONS = ("data", "train", "evaluate")
OF_SIZES = re.compile(r"^\[train (.*)\]", re.MULTILINE)
LARGEST = 100_000  # bytes that a recipe next to checkpoints may have, at most
START = "--finetune-from-model"


@dataclass(frozen=True)
class Recipe:
    """A recipe in one piece.

    Args:
        place: its file, or DATASET/MODEL; named in error messages.
        text: its content, with bytes that are not UTF-8 as surrogates.
    """

    place: str
    text: str

    @classmethod
    def find(cls, name: str) -> "Recipe":
        """Returns the recipe of this path or DATASET/MODEL; raises UserError if there is none."""
        if Path(name).is_file():
            return cls.read(Path(name).absolute())
        if name in names():
            return cls(name, recipe_text(name))
        raise UserError(f"there is no recipe {name}: give a file, or DATASET/MODEL, which `train --help` lists.")

    @classmethod
    def read(cls, path: Path) -> "Recipe":
        """Reads a recipe from a file."""
        return cls(str(path), text_of(path))

    @classmethod
    def beside(cls, folder: Path) -> "Recipe | None":
        """Reads the recipe that train wrote next to checkpoints, perhaps someone else's; None if there is none.

        Raises:
            UserError: if it is a link, or not a small file.
        """
        path = folder / RECIPE
        if not path.is_symlink() and not path.exists():
            return None
        if path.is_symlink() or not path.is_file() or path.stat().st_size >= LARGEST:
            raise UserError(f"{path} is not a recipe that train wrote: restore the original, or remove it.")
        return cls.read(path)

    @property
    def is_file(self) -> bool:
        """Whether it is a file, rather than a recipe of this project."""
        return self.place.startswith("/")

    @property
    def name(self) -> str:
        """DATASET/MODEL, or the name of its file."""
        return Path(self.place).name.removesuffix(".recipe") if self.is_file else self.place

    def flags(self, section: str, allowed: dict[str, bool] | None = None) -> list[str]:
        """Returns the words of a section: for each line the flag and, as one word, the rest of the line.

        Args:
            allowed: the only flags that the section may have, and whether each takes a value.

        Raises:
            UserError: naming a line, in any section, that a recipe cannot have.
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
        """Yields number, section and text of each line that is neither empty nor a comment."""
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
        """Returns the folder of binarised data that [data] makes; raises UserError if it does not exist."""
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
        """Returns the flags of fairseq-train, followed by ``others``, which override them.

        In a recipe of this project, the checkpoint to start from is a path in this project; raises UserError if it does
        not exist, unless ``others`` name another one.
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
    """Reads a text file; bytes that are not UTF-8 become surrogates."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def last_value(flag: str, words: list[str]) -> str | None:
    """Returns the last value that words give to a flag, empty if it is missing; None if they do not have the flag."""
    found = None
    for word, following in pairwise([*words, ""]):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found


def names() -> list[str]:
    """Returns all DATASET/MODEL: a data set has a recipe for each model whose size has a section [train SIZE ...]."""
    found = []
    for dataset in sorted((RECIPES / "datasets").glob("*.recipe")):
        sizes = " ".join(OF_SIZES.findall(text_of(dataset)))
        found += [f"{dataset.stem}/{model}" for model in models() if has_size(model, sizes)]
    return found


def has_size(model: str, sizes: str) -> bool:
    """Whether a model's name ends in one of the sizes, such as ``pa_vit`` in ``vit``."""
    return any(f"_{model}".endswith(f"_{size}") for size in sizes.split())


def described() -> str:
    """Lists all recipes for --help: data sets that have the same models share a block, with the models below."""
    sharing: dict[str, list[str]] = {}
    for dataset, found in groupby((name.split("/") for name in names()), key=itemgetter(0)):
        sharing.setdefault(" ".join(model for _, model in found), []).append(dataset)
    return "\n".join(
        textwrap.fill(text, 116, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for found, datasets in sharing.items()
        for text, indent in ((f"{' '.join(datasets)}:", "  "), (found, "    "))
    )


def recipe_text(name: str) -> str:
    """Returns DATASET/MODEL as one text: the model's file, then the data set's without other sizes' sections."""
    dataset, model = name.split("/")
    lines, of_other_sizes = [], False
    for line in text_of(RECIPES / f"datasets/{dataset}.recipe").removesuffix("\n").split("\n"):
        if line.startswith("["):
            sizes = OF_SIZES.match(line)
            of_other_sizes = sizes is not None and not has_size(model, sizes[1])
            line = "[train]" if sizes else line
        if not of_other_sizes:
            lines.append(f"{line}\n")
    return f"{text_of(RECIPES / f'models/{model}.recipe')}\n{''.join(lines)}"


def models() -> list[str]:
    """Returns the names of the models that have recipes."""
    return sorted(path.stem for path in (RECIPES / "models").glob("*.recipe"))


def model_flags(model: str) -> list[str]:
    """Returns the flags of fairseq-train, as words, that make a model differ from all others."""
    return Recipe.read(RECIPES / f"models/{model}.recipe").flags("train")


def ablation() -> dict[str, list[str]]:
    """Returns the rows of the papers' ablation: by label, the flags that each adds to those of the full model."""
    return {row["model"]: row["flags"].split() for row in read_tsv(RECIPES / "ablation.tsv")}
