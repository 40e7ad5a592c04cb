"""Importing fairseq through this package is faster than importing it directly, and leaves logging to the program.

A fifth of the time goes into scikit-learn and SciPy's statistics, which only scores of classifiers need; another fifth
goes into Python's garbage collection, although an import leaves no garbage. A module of fairseq
(fairseq/models/wav2vec/wav2vec2_classification.py) sets the root logger to DEBUG, so that a program would show debug
messages of every library.
"""

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

LAZY_MODULES = ("sklearn", "sklearn.metrics", "scipy.stats")  # fairseq seldom calls their functions


class LazyModule(ModuleType):
    """A placeholder for a module, or for a function in it, which is imported when the function is called."""

    def __getattr__(self, name: str) -> "LazyModule":
        if name.startswith("__"):
            raise AttributeError(name)
        return LazyModule(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        module, _, name = self.__name__.rpartition(".")
        return getattr(import_module(module), name)(*args, **options)


@contextmanager
def quick_import() -> Iterator[None]:
    """Within this context, seldom needed modules are not imported, and garbage is not collected.

    At its end the root logger is as it was.
    """
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    placeholders = {name: LazyModule(name) for name in LAZY_MODULES if name not in sys.modules}
    was_enabled = gc.isenabled()
    gc.disable()
    sys.modules.update(placeholders)
    try:
        yield
    finally:
        for name, placeholder in placeholders.items():
            if sys.modules.get(name) is placeholder:
                del sys.modules[name]
        root.setLevel(level)
        root.handlers[:] = handlers
        if was_enabled:
            gc.enable()
