"""Runs fairseq's commands like `run` of commands.py, in processes forked from one that has imported fairseq already."""

import importlib
import multiprocessing
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

MODULES = {name: f"fairseq_cli.{name.removeprefix('fairseq-')}" for name in ("fairseq-train", "fairseq-generate")}
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(list(MODULES.values()))


def run_forked(*command, cwd: Path) -> CompletedProcess:
    with TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("stdout", "stderr")]
        process = context.Process(target=become, args=([str(part) for part in command], cwd, *outputs))
        process.start()
        process.join(timeout=120)
        return CompletedProcess(command, process.exitcode, *(path.read_text() for path in outputs))


def become(command: list[str], cwd: Path, stdout: Path, stderr: Path):
    """Turns this process into the command."""
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    os.chdir(cwd)
    sys.argv = command
    try:
        importlib.import_module(MODULES[command[0]]).cli_main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
