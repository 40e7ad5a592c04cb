"""The memory and the processor time of running processes, as Linux tells them in /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process at a moment; `cpu` is in seconds, and its own alone."""

    pid: int
    parent: int
    session: int
    cpu: float


def session(leader: int) -> list[Process]:
    """The processes of the session that a process leads: itself and what it started, and what that started."""
    return [process for process in map(_read, PROC.glob("[0-9]*")) if process and process.session == leader]


def memory(pid: int) -> int:
    """The bytes of memory of a process, where it shares some with n others one nth of those; 0 when it has ended."""
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _read(folder: Path) -> Process | None:
    try:
        numbers = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(int(folder.name), int(numbers[1]), int(numbers[3]), TICK * (int(numbers[11]) + int(numbers[12])))
