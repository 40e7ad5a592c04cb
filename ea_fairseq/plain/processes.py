"""Processes that a command starts: programs of its environment, and other commands of this package."""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.project import PACKAGE, PROJECT

DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG, of Linux's prctl


def program(name: str) -> Path:
    """A program that belongs to this Python, such as ``fairseq-train``; raises UserError if there is none."""
    path = Path(sys.executable).with_name(name)
    if not path.is_file():
        raise UserError(f"there is no {path}: install this project for {sys.executable}.")
    return path


def own_command(*words: str) -> list[str]:
    """Returns the command line of another command of this package, to run in ``own_environment``."""
    return [sys.executable, "-P", "-m", PACKAGE.name, *words]


def own_environment() -> dict[str, str]:
    """Returns environment variables with which another Python, too, finds this package in its checkout."""
    if PACKAGE.parent != PROJECT:
        return dict(os.environ)
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(PROJECT), *(place for place in others if place not in ("", str(PROJECT)))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


def die_with_parent() -> None:
    """Makes this process end when its parent ends, on Linux; for ``preexec_fn``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)


def stop_tree(process: int) -> None:
    """Stops a process and all that it started."""
    children = []
    with suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    for child in children:
        stop_tree(int(child))


def last_line(log: Path) -> str:
    """Returns the last line that a process wrote to its log; empty if there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").rstrip("\n") if log.is_file() else ""
    return lines.rpartition("\n")[2]
