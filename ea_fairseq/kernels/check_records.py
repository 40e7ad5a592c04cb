"""Results of the checks of kernels, a file for each, in a folder for GPU, driver, torch, Triton and our sources.

A file is replaced as a whole, so that one of several processes writes it; a file that cannot be read is made anew. A
check that crashes its process leaves a record of its start, from which the next process sees the crash.
"""

import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ea_fairseq.kernels import dispatch

KERNELS = Path(__file__).parent
DRIVER = Path("/proc/driver/nvidia/version")
LARGEST = 10_000  # bytes of a record
PATIENCE = 600  # seconds after which a check that another machine has begun counts as crashed


class Record:
    """The result of checking one kernel on one device.

    Args:
        path: of the file; None if there is no place for it, and nothing is recorded.
    """

    def __init__(self, path: Path | None):
        self.path = path

    @classmethod
    def of(cls, device: torch.device, name: str) -> "Record":
        """The record of a kernel on a device."""
        place = folder(device)
        return cls(place and place / f"{name}.json")

    def problem(self) -> str | None:
        """What an earlier check has found wrong: empty if nothing, None if there was no check."""
        content = self.read()
        problem = content.get("problem")
        if isinstance(problem, str) and len(problem) < LARGEST and problem.isprintable():
            return problem
        if "problem" in content and problem is None and has_crashed(content):
            return f"crashed or was killed in its check (to check it again, remove {self.path})"
        return None

    @property
    def title(self) -> str:
        """The kernel's title, for people to read."""
        title = self.read().get("kernel")
        return title if isinstance(title, str) and title.isprintable() else self.path.stem if self.path else ""

    def read(self) -> dict:
        """The file's content, empty if there is none that can be read."""
        with suppress(OSError, ValueError, RecursionError):
            if self.path and self.path.stat().st_size < LARGEST:
                content = json.loads(self.path.read_text(encoding="utf-8"))
                return content if isinstance(content, dict) else {}
        return {}

    def run(self, title: str, check: Callable[[], str]) -> str:
        """Runs a check and records what it returns, see :meth:`problem`; an exception leaves no record."""
        begun = {"host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}
        self.write({"kernel": title, "problem": None, **begun})
        try:
            problem = check()
        except BaseException:
            with suppress(OSError):
                if self.path:
                    self.path.unlink()
            raise
        self.write({"kernel": title, "problem": problem})
        return problem

    def write(self, content: dict) -> None:
        """Replaces the file; without space or permission there is none."""
        with suppress(OSError):
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                written = self.path.with_suffix(f".{os.getpid()}.tmp")
                written.write_text(json.dumps(content), encoding="utf-8")
                written.replace(self.path)


def has_crashed(content: dict) -> bool:
    """Whether the process that began a check has ended since; for a process of another machine, the time decides."""
    if content.get("host") != socket.gethostname():
        begun = content.get("at")
        return not isinstance(begun, int | float) or time.time() - begun > PATIENCE
    try:
        os.kill(int(content["pid"]), 0)
    except (KeyError, TypeError, ValueError, OverflowError, ProcessLookupError):
        return True
    except PermissionError:
        pass
    return False


@cache
def folder(device: torch.device) -> Path | None:
    """Where records of kernels on a device are; None for a user without a home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    name = re.sub("[^A-Za-z0-9]+", "-", device_name(device))
    return Path(base, "ea-fairseq", "kernel-checks", f"{name}-{fingerprint(device)}")


def device_name(device: torch.device) -> str:
    """The GPU's name; on a CPU kernels are interpreted."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "Triton's interpreter"


def fingerprint(device: torch.device) -> str:
    """Changes with all that a kernel's results may depend on: GPU, driver, torch, Triton and this folder's sources."""
    facts = [device_name(device), torch.__version__, version("triton"), os.environ.get("TRITON_INTERPRET", "")]
    if device.type == "cuda":
        facts += [str(torch.cuda.get_device_capability(device)), str(torch.version.cuda)]
        with suppress(OSError):
            facts.append(DRIVER.read_text())
    sources = [path.read_bytes() for path in sorted(KERNELS.glob("*.py")) + sorted(KERNELS.glob("triton/*.py"))]
    return hashlib.sha256(b"\0".join([*map(str.encode, facts), *sources])).hexdigest()[:16]


def devices() -> list[torch.device]:
    """The devices with kernels in Triton: GPUs, one of each name; or a CPU if EA_BACKEND=triton."""
    found: dict[str, torch.device] = {}
    for index in range(torch.cuda.device_count()):
        found.setdefault(torch.cuda.get_device_name(index), torch.device("cuda", index))
    return list(found.values()) or [torch.device("cpu")] * (dispatch.backend == "triton")


def report() -> tuple[str, list[str]]:
    """How many kernels have been checked on this machine, for people; and a sentence for each that fails."""
    counts, sentences = [], []
    try:
        for device in devices():
            name, place = device_name(device), folder(device)
            records = [Record(path) for path in sorted(place.glob("*.json"))] if place else []
            problems = [record.problem() for record in records]
            counts.append(
                f"{problems.count('')} kernels agree with PyTorch on {name}, {sum(map(bool, problems))} do not"
            )
            sentences += [
                f"on {name}, Triton's kernel ({record.title}) {problem}; PyTorch computes instead"
                for record, problem in zip(records, problems, strict=True)
                if problem
            ]
    except (OSError, RuntimeError, PackageNotFoundError) as error:
        return f"unknown ({str(error).partition(chr(10))[0]})", []
    return "; ".join(counts) or "none: kernels in Triton are for GPUs", sentences
