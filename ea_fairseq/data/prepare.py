"""``ea-fairseq prepare DATA_SET``: from archives or raw text to binarised data."""

import pkgutil
import sys
from importlib import import_module

from ea_fairseq.data import sets
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.errors import UserError


def data_set_names() -> list[str]:
    """The names of all data sets."""
    return [module.name.replace("_", "-") for module in pkgutil.iter_modules(sets.__path__)]


def data_set(name: str) -> DataSet:
    """Returns the data set of a name; raises UserError if there is none."""
    if name not in data_set_names():
        raise UserError(f"there is no data set {name}: see `ea-fairseq prepare --help` for a list.")
    return import_module(f"{sets.__name__}.{name.replace('-', '_')}").DATA_SET


def usage() -> str:
    """Returns the help text, which lists all data sets."""
    names = data_set_names()
    width = max(map(len, names))
    return "\n".join(
        [
            "usage: ea-fairseq prepare DATA_SET [options] ... OUT_DIR",
            "",
            "Writes binarised data to OUT_DIR/data-bin, step by step. If interrupted, run it again to resume.",
            "",
            *(f"  {name:{width}}  {data_set(name).summary}" for name in names),
            "",
            "`ea-fairseq prepare DATA_SET --help` describes a data set.",
            "",
            "example:",
            "  ea-fairseq prepare iwslt14-deen data/iwslt14-deen",
        ]
    )


def main() -> None:
    """Prepares the data set that the command line names."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        print(usage())
        return
    chosen = data_set(name)
    chosen.prepare(chosen.options(arguments))
