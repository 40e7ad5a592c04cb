"""The classes of models that are made one a family: what they are called, and how they are found by that."""

from collections.abc import Iterable


def class_name(name: str) -> str:
    """``ea_roberta`` -> ``EARobertaModel``"""
    return "".join(part.upper() if len(part) < 3 else part.capitalize() for part in name.split("_")) + "Model"


def class_of_name(models: Iterable[type], module: str, name: str) -> type:
    """The one of a module's models that has a class name, as pickle and imports look for it.

    Raises:
        AttributeError: where none has it.
    """
    for model in models:
        if model.__name__ == name:
            return model
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
