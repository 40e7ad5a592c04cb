"""The recipes of ea_fairseq/experiments/recipes, each in one piece, as train puts it together."""

from argparse import Namespace
from dataclasses import fields
from functools import cache

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

from ea_fairseq.experiments.runs.recipe import model_flags, names, recipe_text
from ea_fairseq.plain.flags import flag_of

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


@cache
def parse(name: str) -> Namespace:
    """The flags of fairseq-train, as fairseq's own parser reads them."""
    return options.parse_args_and_arch(options.get_training_parser(), ["data", *flags_of(name)])


def assert_differs_in_its_model_alone(name: str, plain: str, *kinds: type) -> None:
    """A recipe is that of the plain model ``plain`` but for the architecture, its mechanism's options and these."""
    data, model = name.split("/")
    makes, family = model_flags(model), getattr(ARCH_MODEL_REGISTRY[parse(name).arch], "family", None)
    kinds += (family.attention.options,) if family else ()
    own = {flag_of(option.name) for kind in kinds for option in fields(kind)}
    assert {word for word in makes if word.startswith("--")} - own == {"--arch"}
    assert flags_of(name) == [*makes, *flags_of(f"{data}/{plain}")[len(model_flags(plain)) :]]
    for of in ("data", "evaluate"):
        assert section(name, of) == section(f"{data}/{plain}", of)
