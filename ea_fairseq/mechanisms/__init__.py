"""What attentions do to their logits: one mechanism per file, which registers it when imported."""

from importlib import import_module
from pkgutil import iter_modules


def register_all() -> None:
    """Imports every mechanism."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


import ea_fairseq.plugin  # noqa: E402, F401  before anything here uses fairseq
