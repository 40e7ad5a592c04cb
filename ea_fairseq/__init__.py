"""Evolving attention for neural machine translation: a fairseq user-dir (``--user-dir ea_fairseq``).

Models, tasks and criterions are registered as soon as both this package and fairseq are imported. Importing this
package alone is fast, so commands that need neither fairseq nor PyTorch start at once.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ea_fairseq import python314
from ea_fairseq.errors import UserError
from ea_fairseq.imports import quick_import

__all__ = [
    *("FAMILIES", "EABertModel", "EAGraph", "EAImage", "EARobertaModel", "EAT5Model", "EATimeSeries"),
    "EATransformerModel",
    "UserError",
]

PLUGIN = "ea_fairseq.plugin"


class AfterFairseq(MetaPathFinder):
    """An import hook that imports the plugin right after fairseq."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns fairseq's spec, whose loader also imports the plugin; None for any other module."""
        if name != "fairseq":
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)  # finding a spec need not lead to an import
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with quick_import():
                    execute(module)
                import_module(PLUGIN)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def __getattr__(name: str) -> Any:
    """Returns a public class; this imports the plugin."""
    if name in __all__:
        return getattr(import_module(PLUGIN), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if sys.version_info >= (3, 14):
    python314.install()
if "fairseq" in sys.modules:
    import_module(PLUGIN)
else:
    sys.meta_path.insert(0, AfterFairseq())
