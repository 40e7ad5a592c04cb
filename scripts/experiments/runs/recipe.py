"""Recipes of trainings; scripts/recipe.sh reads the rest of them."""

from pathlib import Path

from experiments.records import is_command

RECIPE = "recipe"  # the copy that train.sh puts beside the checkpoints


def data_command(recipe: Path) -> str | None:
    """The command that makes a recipe's data, the last of its words the folder for them; None where it has none."""
    text = recipe.read_text(encoding="utf-8", errors="replace") if recipe.is_file() else ""
    lines = map(str.strip, text.splitlines())
    for line in lines:
        if line == "[data]":
            command = next((line for line in lines if line and not line.startswith("#")), "")
            return command if is_command(command) else None
    return None
