"""A `python` that forks binarize.py from a process that has imported fairseq, which takes most of a preparation's time.

The tests listen at a socket; the `python` that they put on a PATH starts this file, which says there what to run. All
else it leaves to the true one.
"""

import os
import sys
from functools import cache
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

PYTHON = """#!/bin/sh
case $1 in */binarize.py) exec '{python}' -I '{client}' '{address}' "$@" ;; esac
exec '{python}' "$@"
"""
RUN = """
import runpy, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@cache
def folder_of_python() -> Path:
    """Starts to listen; the folder of the `python`."""
    listener = Listener(family="AF_UNIX")
    folder = Path(listener.address).parent  # multiprocessing's own, which it removes at the end
    python = folder / "python"
    python.write_text(PYTHON.format(python=sys.executable, client=__file__, address=listener.address))
    python.chmod(0o755)
    Thread(target=serve, args=(listener,), daemon=True).start()
    return folder


def serve(listener: Listener):
    from forked import run_forked

    while True:
        with listener.accept() as connection:
            command, cwd, environment = connection.recv()
            result = run_forked(*command, cwd=cwd, code=RUN, **environment)
            connection.send((result.returncode, result.stdout, result.stderr))


if __name__ == "__main__":
    with Client(sys.argv[1]) as connection:
        connection.send((sys.argv[2:], Path.cwd(), dict(os.environ)))
        status, output, errors = connection.recv()
    sys.stdout.write(output)
    sys.stderr.write(errors)
    sys.exit(status)
