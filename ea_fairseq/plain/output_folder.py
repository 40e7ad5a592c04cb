"""A folder that a command fills in steps, each made whole or not at all, so that running it again resumes."""

import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from ea_fairseq.errors import UserError
from ea_fairseq.plain.files import require_path, write_whole
from ea_fairseq.plain.project import PROJECT

STAMPS, LOGS, LOCK, MAKER = ".stages", "logs", "lock", "made-by"


class OutputFolder:
    """The folder of a command's output.

    Besides the outputs it holds ``logs`` and ``.stages``. The latter has the lock, the folder's maker and, for each
    output, a stamp: a text that names all that the output depends on.

    Args:
        path: the folder, which need not exist.
        command: its name, in messages and of the log.
        made_by: what fills the folder, if a command fills different kinds of folders.

    Raises:
        UserError: if fairseq cannot use the path, or it is a file or a folder with other files.
    """

    def __init__(self, path: Path, command: str, made_by: str | None = None):
        self.path = require_path(path).absolute()
        self.command, self.made_by = command, made_by or command
        self.check()

    def check(self) -> None:
        """Raises UserError unless the folder is missing, empty or from an earlier run of this command."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is not a folder: give a folder for the output.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not (self.path / STAMPS).is_dir():
            raise UserError(f"{self.path} holds other files: give a new folder, or that of an earlier run.")
        maker = self.path / STAMPS / MAKER
        name = read_text(maker).strip() if maker.is_file() else self.made_by
        if name != self.made_by and self.has_output():
            raise UserError(
                f"{self.path} was made by {name}: give a new folder, or that of an earlier run of {self.made_by}."
            )

    def has_output(self) -> bool:
        """Whether there is a file other than stamps and logs."""
        tops = [path for path in self.path.iterdir() if path.name not in (STAMPS, LOGS)]
        return any(not top.is_dir() or any(not path.is_dir() for path in top.rglob("*")) for top in tops)

    @contextmanager
    def opened(self) -> Iterator["OutputFolder"]:
        """Makes the folder and waits until no other run, and no process that a killed run has left, works in it.

        Child processes can hold the lock, too: forked ones inherit it, others need ``pass_fds``.

        Raises:
            UserError: if nothing can be written or locked, or another command has made the folder meanwhile.
        """
        with self.writing("in"):
            (self.path / STAMPS).mkdir(parents=True, exist_ok=True)
            (self.path / LOGS).mkdir(exist_ok=True)
            lock = (self.path / STAMPS / LOCK).open("a")
        with lock:
            wait_for_lock(lock, lambda: self.say(f"waiting for another run in {self.path} to end"))
            self.lock = lock.fileno()
            self.check()
            with self.writing("in"):
                maker, name = self.path / STAMPS / MAKER, f"{self.made_by}\n"
                if not maker.is_file() or read_text(maker) != name:
                    write_whole(maker, name)
            yield self

    def say(self, text: str) -> None:
        """Prints progress, with the time, and adds it to the log; unprintable characters are shown as ``?``."""
        say(text)
        log = self.path / LOGS / f"{self.command}.log"
        if log.parent.is_dir():
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {visible(text)}\n")

    def stage(self, output: str, settings: str, make: Callable[[Path], object]) -> None:
        """Lets ``make`` write a file or folder, unless it exists and was made with the same settings.

        Args:
            output: its path in this folder.
            settings: its stamp.
            make: writes it to the temporary path that it is given, which is then moved to ``output``.

        Raises:
            UserError: if the output cannot be put in place. Errors of ``make`` pass, and leave nothing behind.
        """
        if self.is_made(output, settings):
            self.say(f"{output}: already made")
            return
        self.say(f"{output}: making it")
        path, unfinished = self.path / output, self.unfinished(output)
        with self.writing(output):
            self.stamp_of(output).unlink(missing_ok=True)
            remove(unfinished)
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            make(unfinished)
        except BaseException:
            remove(unfinished)
            raise
        with self.writing(output):
            remove(path)
            unfinished.rename(path)
            self.stamp(output, settings)

    def unfinished(self, output: str) -> Path:
        """The path of an output while it is made; a run that was killed leaves it."""
        return self.path / f"{output}.tmp"

    def is_made(self, output: str, settings: str) -> bool:
        """Whether an output exists with this stamp, and without broken links."""
        path = self.path / output
        inside = path.iterdir() if path.is_dir() else ()
        is_whole = path.exists() and all(inner.exists() for inner in inside)
        return is_whole and self.found_stamp(output) == without_place(settings)

    def is_other(self, output: str, settings: str) -> bool:
        """Whether an output has a different stamp."""
        return self.found_stamp(output) not in (None, without_place(settings))

    def stamp(self, output: str, settings: str) -> None:
        """Records that an output is made with these settings."""
        write_whole(self.stamp_of(output), without_place(settings) + "\n")

    def stamp_of(self, output: str) -> Path:
        """The file of an output's stamp."""
        return self.path / STAMPS / output.replace("/", ".")

    def found_stamp(self, output: str) -> str | None:
        """Returns the stamp of an output, with paths in this project relative, or None if it has none."""
        stamp = self.stamp_of(output)
        return without_place(read_text(stamp)) if stamp.is_file() else None

    def discard(self, output: str) -> None:
        """Removes an output and its stamp."""
        self.stamp_of(output).unlink(missing_ok=True)
        remove(self.path / output)

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Turns an OSError into a UserError that names the folder; ``what`` is the output, or ``in`` for the folder."""
        try:
            yield
        except OSError:
            what = "in" if what == "in" else f"{what} in"
            raise UserError(
                f"cannot write {what} {self.path}: check its permissions and the space on its disk."
            ) from None


def read_text(path: Path) -> str:
    """Returns the text of a file; invalid bytes are replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def wait_for_lock(lock: IO[str], waiting: Callable[[], None]) -> None:
    """Locks an open file; ``waiting`` is called if another process holds the lock.

    Raises:
        UserError: if the disk does not support locks.
    """
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        raise UserError(f"cannot lock {lock.name}: give a folder on a disk that knows locks.") from None


def say(text: str) -> None:
    """Prints progress, with the time."""
    print(f"{datetime.now():%H:%M:%S} {visible(text)}", flush=True, file=sys.stdout)


def visible(text: str) -> str:
    """Replaces unprintable characters, which may control a terminal, by ``?``."""
    return "".join(char if char.isprintable() else "?" for char in text)


def without_place(settings: str) -> str:
    """Makes the paths in this project relative, so that settings stay the same when it is moved."""
    return settings.replace(f"{PROJECT}/", "").rstrip("\n")


def remove(path: Path) -> None:
    """Removes a file, a link or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
