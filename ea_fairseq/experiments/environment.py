"""The environment of a command: the versions of its tools, this project's commit, the machine."""

import os
import platform
import subprocess
from importlib.util import find_spec

from ea_fairseq.errors import UserError
from ea_fairseq.installation import installed_version
from ea_fairseq.installation import processor as processor_and_cores
from ea_fairseq.plain.project import PROJECT

TOOLS = {"torch": "torch", "fairseq": "fairseq-fixed", "sacrebleu": "sacrebleu", "numpy": "numpy"}


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that figures depend on."""
    found = {tool: installed_version(package) for tool, package in TOOLS.items()}
    return {"python": platform.python_version()} | {tool: number for tool, number in found.items() if number}


def commit() -> str | None:
    """This project's commit, with ``+`` if tracked files have changed since, or None outside a checkout."""

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", PROJECT, *command], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """The processor's name, how many of its cores this process may use, and the limit of threads, if there is one."""
    threads = os.environ.get("OMP_NUM_THREADS")
    limit = f", {threads} thread{'s' * (threads != '1')}" if threads else ""
    return f"{processor_and_cores()}{limit}"


def gpus() -> list[str]:
    """The names of the GPUs that CUDA can use; empty without a driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = [line.split(", ", 2) for line in of_gpus("index,uuid,name")]
    return [name for *names, name in found if visible is None or {*names} & {*visible.split(",")}]


def of_gpus(facts: str) -> list[str]:
    """What nvidia-smi says of each GPU; empty without a driver."""
    listing = ["nvidia-smi", f"--query-gpu={facts}", "--format=csv,noheader"]
    try:
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def require_matplotlib() -> None:
    """Raises UserError if figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise UserError("matplotlib is not installed: run pip install 'ea-fairseq[plots]'.")
