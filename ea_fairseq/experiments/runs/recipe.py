"""Recipes of trainings; scripts/recipe.sh reads the rest of them."""

import csv
from pathlib import Path

from ea_fairseq.plain.records import is_command

RECIPE = "recipe"  # the copy that train.sh puts beside the checkpoints
RECIPES = Path(__file__).parents[1] / "recipes"


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
    lines = (RECIPES / "models" / f"{model}.recipe").read_text(encoding="utf-8").splitlines()
    return [word for line in lines if line.startswith("--") for word in line.split(maxsplit=1)]


def ablation() -> dict[str, list[str]]:
    """The rows of the papers' ablation by their labels: the flags that each adds to those of the full model."""
    with (RECIPES / "ablation.tsv").open(encoding="utf-8", newline="") as file:
        return {row["model"]: row["flags"].split() for row in csv.DictReader(file, delimiter="\t")}
