"""A `python` and fairseq's commands, forked from a process that has imported fairseq, which takes most of their time.

The tests listen at a socket; the `python` that they put on a PATH, and the commands beside it, start this file, which
says there what to run. All but what is in WARM it leaves to the true ones.
"""

import os
import sys
from functools import cache
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

WARM = (
    " | ".join(f"'-P -m ea_fairseq{module} '*" for module in (".cli average", " maps"))
    + " | '-P -m ea_fairseq.experiments.scoring.'*"
)
PYTHON = """#!/bin/sh
case "$*" in {warm}) exec '{python}' -I '{client}' '{address}' "$@" ;; esac
exec '{python}' "$@"
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
sys.path.insert(0, os.environ["PYTHONPATH"])
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@cache
def folder_of_python() -> Path:
    """Starts to listen; the folder of the `python`."""
    listener = Listener(family="AF_UNIX")
    folder = Path(listener.address).parent  # multiprocessing's own, which it removes at the end
    parts = {"python": sys.executable, "client": __file__, "address": listener.address, "warm": WARM}
    texts = {"python": PYTHON, "fairseq-train": COMMAND, "fairseq-generate": COMMAND}
    for name, text in texts.items():
        (folder / name).write_text(text.format(name=name, **parts))
        (folder / name).chmod(0o755)
    Thread(target=serve, args=(listener,), daemon=True).start()
    return folder


def serve(listener: Listener):
    from forked import run_forked

    while True:
        with listener.accept() as connection:
            command, cwd, environment = connection.recv()
            if command[:2] == ["-P", "-m"]:
                command, code = command[2:], MODULE
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
