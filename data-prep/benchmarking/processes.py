"""Memory and processor time of running processes, from Linux' /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process at a moment; ``cpu`` is its own processor time in seconds, without its children's."""

    pid: int
    parent: int
    session: int
    cpu: float


def session(leader: int) -> list[Process]:
    """The processes of the session that a process leads: itself and its descendants."""
    return [process for process in map(_read, PROC.glob("[0-9]*")) if process and process.session == leader]


def memory(pid: int) -> int:
    """The proportional set size (PSS) of a process in bytes; 0 when it has ended."""
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _read(folder: Path) -> Process | None:
    """The process of a folder in /proc, or None when it has ended."""
    try:
        numbers = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(int(folder.name), int(numbers[1]), int(numbers[3]), TICK * (int(numbers[11]) + int(numbers[12])))
