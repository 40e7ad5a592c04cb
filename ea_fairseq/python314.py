"""fairseq works on Python 3.14, which prints the types of optional settings as ``str | None``.

``interpret_dc_type`` of fairseq/dataclass/utils.py recognises an optional setting by the printed form of its type,
``typing.Optional[str]`` up to Python 3.13. On 3.14 it therefore takes ``str | None`` for a type that it does not know,
and importing fairseq fails. Here the function asks for the origin of the type instead.

A process may import fairseq before this package, as ``fairseq-train`` does. So the installation copies this file to
``ea_fairseq_python314.py`` beside the package, and ``ea_fairseq_python314.pth`` lets Python 3.14 call :func:`install`
when it starts, also in worker processes. Other versions of Python do not import it.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

PATCHED = "fairseq.dataclass.utils"


class DataclassUtilsFinder(MetaPathFinder):
    """An import hook that replaces ``interpret_dc_type`` as soon as its module has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the spec of fairseq's module, whose loader also replaces the function; None for any other module."""
        spec = PathFinder.find_spec(name, path) if name == PATCHED else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                module.interpret_dc_type = interpret_dc_type  # type: ignore[attr-defined]

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


def install() -> None:
    """Adds the import hook, once in a process."""
    if not any(type(finder).__name__ == DataclassUtilsFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, DataclassUtilsFinder())
