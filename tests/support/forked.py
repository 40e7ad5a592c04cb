"""Runs fairseq's commands like `run` of commands.py, in processes forked from one that has imported fairseq already."""

import atexit
import gc
import multiprocessing
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

import torch

from commands import written

MODULES = {f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("train", "generate", "interactive", "preprocess")}
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([*MODULES.values(), "torch._dynamo"])  # the last is what torch's optimizers import


class Forked:
    """A command at work, or Python code as by ``python -c CODE ARGUMENTS``."""

    def __init__(self, *command, cwd: Path, code: str | None = None, **environment: str):
        self.command = [str(part) for part in command]
        self._folder = TemporaryDirectory()
        self._outputs = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        code = code or f"from {MODULES[self.command[0]]} import cli_main; cli_main()"
        self._process = context.Process(target=become, args=(code, self.command, cwd, environment, *self._outputs))
        self._process.start()

    def wait(self) -> CompletedProcess:
        """Waits until it has ended, kills it after two minutes."""
        self._process.join(timeout=120)
        self._process.kill()
        self._process.join()
        with self._folder:
            return CompletedProcess(self.command, self._process.exitcode, *(path.read_text() for path in self._outputs))


def run_forked(*command, **options) -> CompletedProcess:
    return Forked(*command, **options).wait()


def run_forked_well(*command, **options) -> str:
    """Runs a command that must end well; returns what it wrote, errors included."""
    return written(run_forked(*command, **options))


def become(code: str, command: list[str], cwd: Path, environment: dict[str, str], stdout: Path, stderr: Path):
    """Turns this process into the command."""
    gc.freeze()  # a collection would write to all that is shared with the server, and the kernel copy it
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    os.chdir(cwd)
    os.environ.update(environment)
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # as in a fresh process: a server is started by each anew
    sys.argv = command
    try:
        exec(code, {"__name__": "__main__"})
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()
