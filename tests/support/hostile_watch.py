"""A watch over what a hostile file brings about."""

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import ROOT

RAN = "hostile.ran"  # what code in a checkpoint says when it is run
FORBIDDEN = ("ctypes", "ftplib", "http", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty", RAN)
FORBIDDEN += ("shutil", "smtplib", "socket", "subprocess", "telnetlib", "urllib", "webbrowser")
NEW_FILES = ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
LOOKING = ("open", "os.listdir", "os.scandir")
OWN = [ROOT, Path("/proc/self"), Path("/dev/null")]
OWN += map(Path, {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *site.getsitepackages()})

watched: list[str] | None = None  # what has been seen, while something is watched
allowed: list[Path] = []


def hook(event: str, arguments: tuple) -> None:
    if watched is None:
        return
    if event == "ctypes.call_function":
        return  # by the native code, from Python 3.14 on; any other function is looked up first, by ctypes.dlsym
    if event.startswith((*FORBIDDEN, *NEW_FILES)):
        watched.append(f"{event} {arguments!r:.200}")
    elif event in LOOKING and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
        path = Path(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100  as it is spelled, links and all
        if not any(path.is_relative_to(folder) for folder in allowed):
            watched.append(f"{event} {path}")


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """Lists what should not happen meanwhile: code run, processes, sockets, files but those of Python and a folder."""
    global watched
    if hook not in installed:
        sys.addaudithook(hook)
        installed.append(hook)
    allowed[:], seen = [*OWN, folder], []
    watched = seen
    try:
        yield seen
    finally:
        watched = None


installed: list[Callable] = []  # hooks stay until Python ends
