"""Measurement of a script's stages while it runs."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarking.processes import memory, session

POLL = 0.1  # seconds
BEGINNING = re.compile(r"(\S+): making it$")


@dataclass
class Stage:
    """A stage of a script.

    Args:
        name: of its output.
        begin: when it began, on the monotonic clock.
        seconds: wall time.
        memory: peak of all its processes together, in bytes.
        bytes: of its output.
        step: processor seconds, by pid, of the process that the script started.
        workers: processor seconds, by pid, of that one's children.
    """

    name: str
    begin: float
    seconds: float = 0
    memory: int = 0
    bytes: int = 0
    step: dict[int, float] = field(default_factory=dict)
    workers: dict[int, float] = field(default_factory=dict)

    def sample(self, script: int, out: Path) -> None:
        """Updates the figures from the running processes; to be called every ``POLL`` seconds."""
        processes = [process for process in session(script) if process.pid != script]
        self.memory = max(self.memory, sum(memory(process.pid) for process in processes))
        for process in processes:
            side = self.step if process.parent == script else self.workers
            side[process.pid] = process.cpu
        self.bytes = max(self.bytes, size_of(out / self.name), size_of(out / f"{self.name}.tmp"))

    def described(self) -> dict[str, object]:
        """The figures as JSON."""
        figures = {"name": self.name, "seconds": self.seconds, "memory": self.memory, "bytes": self.bytes}
        return figures | {"step_cpu": sum(self.step.values()), "workers_cpu": sum(self.workers.values())}


def measure(command: list[str], out: Path, log: Path) -> tuple[list[Stage], int]:
    """Runs a script that prints ``NAME: making it`` before it makes OUT/NAME, and measures each stage.

    Args:
        log: receives what the script prints.

    Returns:
        The stages, and the peak size of ``out`` in bytes.

    Raises:
        CalledProcessError: where the script fails.
    """
    stages, disk = [], 0
    script = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    listener = threading.Thread(target=_listen, args=(script.stdout, log, stages.append))
    listener.start()
    try:
        while script.poll() is None:
            if stages:
                stages[-1].sample(script.pid, out)
                disk = max(disk, size_of(out))
            time.sleep(POLL)
    except BaseException:
        os.killpg(script.pid, signal.SIGKILL)
        raise
    finally:
        script.wait()
        listener.join()
    if script.returncode:
        raise subprocess.CalledProcessError(script.returncode, command)
    ends = [*(stage.begin for stage in stages[1:]), time.monotonic()]
    for stage, end in zip(stages, ends, strict=True):
        stage.seconds = end - stage.begin
        stage.bytes = size_of(out / stage.name) or stage.bytes
    return stages, max(disk, size_of(out))


def size_of(path: Path) -> int:
    """The bytes of a file, or of all files in a folder; links are not followed, and what vanishes counts 0."""
    try:
        if path.is_dir() and not path.is_symlink():
            return sum(map(size_of, path.iterdir()))
        return path.lstat().st_size
    except OSError:
        return 0


def _listen(lines: Iterable[str], log: Path, found: Callable[[Stage], None]) -> None:
    """Copies lines to the log and calls ``found`` with each stage that one of them begins."""
    with log.open("w", encoding="utf-8") as copy:
        for line in lines:
            copy.write(line)
            if name := BEGINNING.search(line.rstrip()):
                found(Stage(name[1], time.monotonic()))
