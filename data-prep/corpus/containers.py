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
LONGEST_NAME = 1000
HEADERS = 1 << 22  # bytes that an archive may have to tell of its members
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
    """Refuse a path, or a link's target, outside of the archive, and a path that no file has."""
    if len(entry.path) > LONGEST_NAME:
        raise StepError(
            f"{archive} has a member whose name has {len(entry.path)} characters: do not trust this archive."
        )
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
    try:
        with archive.open("rb") as file:
            if file.peek(4).startswith(ZIP):
                yield from read_zip(archive)
                return
            stream = unzipped(file)
            if is_tar(stream):
                yield from read_tar(stream)
            else:
                yield Entry(archive.name, True, lambda: stream)
    except HeadersError:
        raise StepError(
            f"{archive} tells more of its members than {HEADERS} bytes hold, which no corpus does: do not trust it."
        ) from None


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


class HeadersError(Exception):
    """An archive tells more of its members than is safe to hold."""


class Headers:
    """A stream that tarfile reads from: what tells of members is bounded, and where the stream ends is an error.

    tarfile by itself holds names of any length, and at the end of a stream goes on without end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.position, self.left = stream, 0, HEADERS
        self.counting = True  # whether what is read tells of members, and is not their content

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        """Goes on to a position; raises tarfile.StreamError for one that was passed."""
        if position < self.position:
            raise tarfile.StreamError
        while self.position < position:
            self._take(min(BUFFER, position - self.position))

    def read(self, size: int) -> bytes:
        """At least one byte; raises EOFError at the end, and HeadersError for too many that tell of members."""
        if self.counting:
            self.left -= size
            if self.left < 0:
                raise HeadersError
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = self.stream.read(size)
        if size and not data:
            raise EOFError
        self.position += len(data)
        return data


def read_tar(stream: IO[bytes]) -> Iterator[Entry]:
    """What is in a tar; the stream is read to its end, so that all of it is seen to be whole."""
    headers = Headers(stream)
    with tarfile.TarFile(fileobj=headers) as archive:
        for info in iter(archive.next, None):
            archive.members.clear()  # which tarfile keeps all of
            target = info.linkname if info.islnk() else None
            if info.issym():
                target = point(info.name, info.linkname)
            headers.counting = False
            yield Entry(info.name, info.isfile(), partial(archive.extractfile, info), target)
            headers.counting = True
    while stream.read(BUFFER):
        pass


class Directory(io.BufferedReader):
    """A file that zipfile reads from: its directory, which is read as a whole, is bounded."""

    def read(self, size: int = -1) -> bytes:
        """The next bytes; raises HeadersError where too many are asked for at once."""
        if size > HEADERS:
            raise HeadersError
        return super().read(size)


def read_zip(archive: Path) -> Iterator[Entry]:
    """What is in a zip."""
    with Directory(io.FileIO(archive)) as file, zipfile.ZipFile(file) as members:
        for info in members.infolist():
            mode, target = info.external_attr >> 16, None
            if stat.S_ISLNK(mode):
                linked = members.open(info).read(BUFFER).decode("utf-8", "surrogateescape")
                target = point(info.filename, linked)
            is_file = not info.is_dir() and stat.S_IFMT(mode) in (0, stat.S_IFREG)
            yield Entry(info.filename, is_file, partial(open_zipped, members, info), target)


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
