"""Folders of the package import from those above them, never from those below."""

import ast
from collections.abc import Iterator
from pathlib import Path

import ea_fairseq
from commands import PLUGIN

LAYERS = (  # from top to bottom; those of one line know nothing of each other
    ("errors", "imports", "python314"),
    ("plain",),
    ("options", "examples"),
    ("kernels",),
    ("attention", "terms"),
    ("blocks",),
    ("mechanisms", "series", "graphs", "images"),
    ("models",),
    ("search", "criterions"),
    ("tasks", "optim", "subwords"),
    ("text",),
    ("checkpoint",),
    ("fairseq_patches", "analysis"),
    ("explorer",),
    ("hub",),
    ("data", "installation"),
    ("experiments",),
    ("cli",),
)
TRIGGER = "plugin"  # which packages import so that fairseq's bugs are mended before they use it
TOGETHER = {"attention", "terms"}  # an attention is built of terms, and a term reads its inputs
PLACES = {name: number for number, names in enumerate(LAYERS) for name in names}
OUTSIDE = {"__init__", "__main__", TRIGGER}
MODULES = sorted(path for path in PLUGIN.rglob("*.py") if path.parent != PLUGIN or path.stem not in OUTSIDE)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and folder, or module of the top level, of each import of the package, those within functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == PLUGIN.name:
            names = [f"{PLUGIN.name}.{alias.name}" for alias in node.names if alias.name not in ea_fairseq.__all__]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from ((node.lineno, name.split(".")[1]) for name in names if name.startswith(f"{PLUGIN.name}."))


def test_every_folder_has_its_place():
    assert {path.relative_to(PLUGIN).parts[0].removesuffix(".py") for path in MODULES} == {*PLACES}


def test_none_imports_from_below():
    wrong = []
    for path in MODULES:
        own = path.relative_to(PLUGIN).parts[0].removesuffix(".py")
        for line, other in imported(path):
            if other not in (own, TRIGGER) and PLACES[other] >= PLACES[own] and {own, other} != TOGETHER:
                wrong.append(f"{path.relative_to(PLUGIN)}:{line} imports {other}, which is not above {own}")
    assert not wrong
