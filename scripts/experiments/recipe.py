"""Recipes of trainings; scripts/recipe.sh reads the rest of them."""

from pathlib import Path

RECIPE = "recipe"  # the copy that train.sh puts beside the checkpoints


def data_command(recipe: Path) -> str | None:
    """The command that makes a recipe's data, the last of its words the folder for them; None where it has none."""
    lines = map(str.strip, recipe.read_text(encoding="utf-8").splitlines() if recipe.is_file() else [])
    for line in lines:
        if line == "[data]":
            return next((line for line in lines if line and not line.startswith("#")), None)
    return None
