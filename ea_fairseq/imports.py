"""fairseq is imported faster than by itself, where this package is what imports it.

A fifth of the time goes into scikit-learn and SciPy's statistics, which only scores of classifiers need, and another
fifth into Python's search for garbage, of which an import leaves none.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

DEFERRED = ("sklearn", "sklearn.metrics", "scipy.stats")  # modules of which fairseq calls functions, seldom


class Deferred(ModuleType):
    """Stands for a module, or for a function in it, which is imported when it is called."""

    def __getattr__(self, name: str) -> "Deferred":
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        module, _, name = self.__name__.rpartition(".")
        return getattr(import_module(module), name)(*args, **options)


@contextmanager
def quick_import() -> Iterator[None]:
    """In this context, what fairseq seldom needs is not imported; afterwards all can be imported as ever."""
    stand_ins = {name: Deferred(name) for name in DEFERRED if name not in sys.modules}
    collects = gc.isenabled()
    gc.disable()
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
        if collects:
            gc.enable()
