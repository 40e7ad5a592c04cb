"""Imports of models that others have published, in this process, and flaws of theirs that are refused."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ea_fairseq.errors import UserError


def run_import(module: ModuleType, files: Path | list[Path], out: Path, monkeypatch, *flags: object) -> Path:
    """Runs the command of a module for files, or for a folder of them; returns the folder that it makes."""
    files = files if isinstance(files, list) else [files]
    monkeypatch.setattr(sys, "argv", ["an import", *map(str, [*files, out, *flags])])
    module.main()
    return out


def assert_import_refused(module: ModuleType, files: Path | list[Path], monkeypatch, reason: str) -> None:
    """The command refuses the files, all of one folder, in one sentence, and leaves nothing there."""
    folder = files[0].parent if isinstance(files, list) else files
    with pytest.raises(UserError, match=reason) as refusal:
        run_import(module, files, folder / "out", monkeypatch)
    assert "\n" not in str(refusal.value)
    assert not (folder / "out").exists() and not list(folder.glob("*.tmp"))


def without(name: str) -> Callable[[dict], object]:
    return lambda parameters: parameters.pop(name)


def changed(name: str, change: Callable) -> Callable[[dict], None]:
    return lambda parameters: parameters.update({name: change(parameters.get(name))})
