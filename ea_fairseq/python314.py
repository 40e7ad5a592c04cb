"""Makes fairseq work on Python 3.14, by replacing one of its functions and one of hydra's once they are imported.

- ``interpret_dc_type`` of fairseq/dataclass/utils.py recognises an optional setting by the printed form of its type,
  ``typing.Optional[str]`` up to Python 3.13. On 3.14 this is ``str | None``, which it takes for the type of the value,
  and importing fairseq fails.
- ``get_args_parser`` of hydra/_internal/utils.py has a help text that is not a string, which argparse of Python 3.14
  checks, and ``fairseq-hydra-train`` fails.

A process may import fairseq before this package, as ``fairseq-train`` does. So the installation copies this file to
``ea_fairseq_python314.py`` next to the package, and ``ea_fairseq_python314.pth`` lets Python 3.14 call :func:`install`
when it starts, also in worker processes. Other versions of Python do not import it.
"""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin


class Finder(MetaPathFinder):
    """An import hook that replaces the two functions as soon as their modules have been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the spec of such a module, whose loader also replaces the function; None for any other module."""
        spec = PathFinder.find_spec(name, path) if name in REPLACED else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                REPLACED[name](module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def interpret_dc_type(field_type: Any) -> Any:
    """Returns the type that a setting's value is parsed to: ``T`` for ``Optional[T]``, and ``str`` for ``Any``.

    Raises:
        RuntimeError: if the type is a string.
    """
    if isinstance(field_type, str):
        raise RuntimeError("field should be a type")
    if field_type == Any:
        return str
    if get_origin(field_type) in (Union, UnionType) and NoneType in get_args(field_type):
        return get_args(field_type)[0]
    return field_type


def without_help_check(get_args_parser: Callable[[], Any]) -> Callable[[], Any]:
    """Wraps hydra's function, so that argparse does not check help texts while it runs."""

    from argparse import ArgumentParser

    def parser_without_check() -> Any:
        check = ArgumentParser._check_help  # type: ignore[attr-defined]
        ArgumentParser._check_help = lambda self, action: None  # type: ignore[attr-defined]
        try:
            return get_args_parser()
        finally:
            ArgumentParser._check_help = check  # type: ignore[attr-defined]

    return parser_without_check


def replace_in_fairseq(module: ModuleType) -> None:
    """Replaces the function of fairseq/dataclass/utils.py."""
    module.interpret_dc_type = interpret_dc_type  # type: ignore[attr-defined]


def replace_in_hydra(module: ModuleType) -> None:
    """Replaces the function of hydra/_internal/utils.py."""
    module.get_args_parser = without_help_check(module.get_args_parser)  # type: ignore[attr-defined]


REPLACED = {"fairseq.dataclass.utils": replace_in_fairseq, "hydra._internal.utils": replace_in_hydra}


def install() -> None:
    """Adds the import hook, once in a process."""
    if not any(type(finder).__module__.endswith("python314") for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
