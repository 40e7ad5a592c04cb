"""The members of archives: tar, tar.gz or zip by their first bytes; any other file is its own and only member."""

import errno
import gzip
import io
import lzma
import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from step import StepError

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
ROOT = re.compile(r"[/\\]|[A-Za-z]:")
BUFFER = 1 << 18
LONGEST_LINE = 10_000_000
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
DAMAGE += (ValueError, LookupError, RuntimeError)  # what zipfile raises for nonsense in a directory


@dataclass(frozen=True)
class Member:
    """A file in an archive: the name it was asked for by, a phrase that says where it is, and its lines.

    The lines are bytes and keep their line feeds; they must be read before the next member is asked for.
    """

    name: str
    place: str
    lines: Iterator[bytes]


@dataclass(frozen=True)
class Entry:
    """What an archive says of a member; `target` is where a link points, as a path in the archive."""

    path: str
    is_file: bool
    open: Callable[[], IO[bytes]]
    target: str | None = None


def open_members(archives: Iterable[Path], names: Collection[str]) -> Iterator[Member]:
    """The members of these names, in one pass over the archives and in the order they have there.

    A name is the end of a member's path, from a slash on, and either may end in .gz: `x.en` names `training/x.en.gz`.
    Members may be gzipped. Nothing is written, and an archive with a member that would leave its folder is refused.
    """
    found: dict[str, str] = {}
    for archive in archives:
        with refusing_damage(archive):
            for entry in read_entries(archive):
                check_safe(archive, entry)
                name = next((name for name in names if is_named(entry.path, name)), None)
                if name is None:
                    continue
                place = f"{entry.path} in {archive}"
                if name in found:
                    raise StepError(f"{found[name]} and {place} are both called {name}: keep one of them.")
                if not entry.is_file:
                    raise StepError(f"{place} is not a regular file: fetch the archive from another place.")
                found[name] = place
                yield Member(name, place, read_lines(archive, place, entry))
    missing = [name for name in names if name not in found]
    if missing:
        places = ", ".join(map(str, archives))
        raise StepError(f"there is no {' and no '.join(missing)} in {places}: check that these are the right archives.")


def is_named(path: str, name: str) -> bool:
    """Whether the path of a member ends in the name."""
    return f"/{path}".removesuffix(".gz").endswith("/" + name.removesuffix(".gz"))


def check_safe(archive: Path, entry: Entry) -> None:
    """Refuse a path, or a link's target, outside of the archive."""
    path = entry.path.replace("\\", "/")
    if ".." in path.split("/") or is_outside(path):
        raise StepError(f"{archive} has a member outside of its folder, {entry.path!r}: do not trust this archive.")
    if entry.target is not None and is_outside(entry.target.replace("\\", "/")):
        raise StepError(f"{archive} has a link out of its folder, {entry.path!r}: do not trust this archive.")


def is_outside(path: str) -> bool:
    """Whether a path is absolute, has a drive or climbs above where it starts."""
    return ROOT.match(path) is not None or posixpath.normpath(path).split("/")[0] == ".."


def point(link: str, target: str) -> str:
    """Where a symbolic link points, as a path in the archive if it can be one."""
    return target if ROOT.match(target) else posixpath.join(posixpath.dirname(link), target)


def read_entries(archive: Path) -> Iterator[Entry]:
    """What is in an archive, in order; an entry must be opened before the next."""
    with archive.open("rb") as file:
        if file.peek(4).startswith(ZIP):
            yield from read_zip(file)
            return
        stream = unzipped(file)
        if is_tar(stream):
            yield from read_tar(stream)
        else:
            yield Entry(archive.name, True, lambda: stream)


def unzipped(stream: IO[bytes]) -> IO[bytes]:
    """The stream, unpacked if it is gzipped."""
    return gzip.GzipFile(fileobj=stream) if stream.peek(2).startswith(GZIP) else stream


def is_tar(stream: IO[bytes]) -> bool:
    """Whether a stream at its start begins with the header of a tar."""
    header = stream.read(tarfile.BLOCKSIZE)
    stream.seek(0)
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


@dataclass(frozen=True)
class Unending:
    """A stream that must not end where more is read, as tarfile would go on at its end without end."""

    stream: IO[bytes]

    def read(self, size: int) -> bytes:
        """At least one byte; raises EOFError at the end."""
        data = self.stream.read(size)
        if not data:
            raise EOFError
        return data


def read_tar(stream: IO[bytes]) -> Iterator[Entry]:
    """What is in a tar; the stream is read to its end, so that all of it is seen to be whole."""
    with tarfile.open(fileobj=Unending(stream), mode="r|", bufsize=BUFFER) as archive:
        for info in archive:
            target = info.linkname if info.islnk() else None
            if info.issym():
                target = point(info.name, info.linkname)
            yield Entry(info.name, info.isfile(), partial(archive.extractfile, info), target)
    while stream.read(BUFFER):
        pass


def read_zip(file: IO[bytes]) -> Iterator[Entry]:
    """What is in a zip."""
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode, target = info.external_attr >> 16, None
            if stat.S_ISLNK(mode):
                linked = archive.open(info).read(BUFFER).decode("utf-8", "surrogateescape")
                target = point(info.filename, linked)
            is_file = not info.is_dir() and stat.S_IFMT(mode) in (0, stat.S_IFREG)
            yield Entry(info.filename, is_file, partial(open_zipped, archive, info), target)


def open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """The bytes of a member of a zip."""
    return io.BufferedReader(archive.open(info), BUFFER)


def read_lines(archive: Path, place: str, entry: Entry) -> Iterator[bytes]:
    """The lines of a member, of which none may be longer than is safe to hold."""
    with refusing_damage(archive), entry.open() as file:
        stream = unzipped(file)
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise StepError(
                    f"line {number} of {place} has more than {LONGEST_LINE} bytes, which no sentence has: "
                    "fetch the archive from another place."
                )
            yield line


@contextmanager
def refusing_damage(archive: Path) -> Iterator[None]:
    """Say in a sentence that the archive cannot be read to its end."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise StepError(f"{archive} is damaged or not whole: remove it and fetch it again.") from None
