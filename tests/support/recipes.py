"""The recipes of ea_fairseq/experiments/recipes, each in one piece, as scripts/recipe.sh puts it together."""

import subprocess
from functools import cache

from commands import ROOT

SECTIONS = ("data", "train", "evaluate")
TEXTS = """
source scripts/lib.sh
source scripts/recipe.sh
for name in $(list_recipes); do
  printf '%s\\n%s\\f' "$name" "$(recipe_text "$name")"
done
"""


@cache
def recipe_texts() -> dict[str, str]:
    """By name, DATASET/MODEL."""
    printed = subprocess.run(["bash", "-euc", TEXTS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return dict(text.split("\n", 1) for text in printed.split("\f")[:-1])


def section(name: str, of: str) -> list[str]:
    """The lines of a section of a recipe, without comments."""
    lines, section = [], None
    for line in filter(None, recipe_texts()[name].splitlines()):
        if line.startswith("["):
            section = line[1:-1]
            assert section in SECTIONS, line
        elif section == of and not line.startswith("#"):
            lines.append(line)
    return lines


def flags_of(name: str) -> list[str]:
    """The flags of fairseq-train, in words."""
    return [word for line in section(name, "train") for word in line.split(" ", 1)]
