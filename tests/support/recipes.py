"""The recipes of ea_fairseq/experiments/recipes, each in one piece, as train puts it together."""

from functools import cache

from ea_fairseq.experiments.runs.recipe import names, recipe_text

SECTIONS = ("data", "train", "evaluate")


@cache
def recipe_texts() -> dict[str, str]:
    """By name, DATASET/MODEL."""
    return {name: recipe_text(name) for name in names()}


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
