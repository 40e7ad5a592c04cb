"""Which files Python opens."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_noted: list[list[Path]] = []


def _note(event: str, arguments: tuple) -> None:
    if _noted and event == "open" and isinstance(arguments[0], str | bytes):
        _noted[-1].append(Path(os.fsdecode(arguments[0])).resolve())


sys.addaudithook(_note)


@contextmanager
def opened_files() -> Iterator[list[Path]]:
    """The files that are opened until the context ends, as they are behind links."""
    _noted.append([])
    try:
        yield _noted[-1]
    finally:
        _noted.pop()
