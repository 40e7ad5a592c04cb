"""A `python` and fairseq's commands, forked from a process that has imported fairseq, which takes most of their time.

The tests listen at a socket; the `python` that they put on a PATH, and the commands beside it, start this file, which
says there what to run. All but what is in WARM it leaves to the true ones.
"""

import os
import sys
from functools import cache
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Lock, Thread

STARTING = Lock()
WARM = " | ".join(f"'-P -m ea_fairseq{module} '*" for module in (" evaluate", " maps"))
PYTHON = """#!/bin/sh
case "$*" in {warm}) exec '{python}' -I '{client}' '{address}' "$@" ;; esac
exec '{own}' "$@"
"""
COMMAND = """#!/bin/sh
exec '{python}' -I '{client}' '{address}' {name} "$@"
"""
SCRIPT = """
import runpy, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
MODULE = """
import os, runpy, sys
sys.executable = {own!r}
sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def folder_of_python() -> Path:
    """The folder of the `python`, whichever thread asks for it first."""
    with STARTING:
        return start()


@cache
def start() -> Path:
    """Starts to listen; the folder of the `python`."""
    from environments import make_environment

    listener = Listener(family="AF_UNIX")
    folder = Path(listener.address).parent  # multiprocessing's own, which it removes at the end
    parts = {"python": sys.executable, "client": __file__, "address": listener.address, "warm": WARM}
    commands = {name: COMMAND.format(name=name, **parts) for name in ("fairseq-train", "fairseq-generate")}
    own = str(make_environment(folder / "environment", commands) / "python")
    (folder / "python").write_text(PYTHON.format(own=own, **parts))
    (folder / "python").chmod(0o755)
    Thread(target=serve, args=(listener, own), daemon=True).start()
    return folder


def serve(listener: Listener, own: str):
    while True:
        Thread(target=answer, args=(listener.accept(), own), daemon=True).start()


def answer(connection: Connection, own: str):
    from forked import run_forked

    with connection:
        command, cwd, environment = connection.recv()
        if command[:2] == ["-P", "-m"]:
            command, code = command[2:], MODULE.format(own=own)
        else:
            code = SCRIPT if command[0].endswith(".py") else None
        result = run_forked(*command, cwd=cwd, code=code, **environment)
        connection.send((result.returncode, result.stdout, result.stderr))


if __name__ == "__main__":
    with Client(sys.argv[1]) as connection:
        connection.send((sys.argv[2:], Path.cwd(), dict(os.environ)))
        status, output, errors = connection.recv()
    sys.stdout.write(output)
    sys.stderr.write(errors)
    sys.exit(status)
