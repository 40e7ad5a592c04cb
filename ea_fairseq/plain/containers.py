"""Reads members of tar, tar.gz and zip archives, known by their first bytes; any other file is its only member."""

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

from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import MAX_LINE

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
BUFFER = 1 << 18
MAX_NAME = 1000  # characters
MAX_HEADERS = 1 << 22  # bytes of a tar's headers beyond those granted to each member, or of a zip's directory
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, LookupError, RuntimeError),  # zipfile raises these for an invalid directory
)
Stream = io.BufferedReader | gzip.GzipFile


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Args:
        name: the requested name.
        place: says where it is, for messages.
        lines: its lines, with their line feeds; they must be read before the next member is requested.
    """

    name: str
    place: str
    lines: Iterator[bytes]


@dataclass(frozen=True)
class Entry:
    """A member as the archive's headers describe it; ``target`` is where a link points, as a path in the archive."""

    path: str
    is_file: bool
    open: Callable[[], Stream]
    target: str | None = None
    is_folder: bool = False


def open_members(archives: Iterable[Path], names: Collection[str]) -> Iterator[Member]:
    """Yields the members with these names in one pass, in the order of the archives; writes no file.

    Args:
        names: each the end of a member's path after a slash; a name or a path may end in .gz, so that ``x.en`` names
            ``training/x.en.gz``, which is unpacked.

    Raises:
        UserError: if a name is missing or found twice, or an archive is damaged or has a member that is not a
            file or would be outside of the archive's folder.
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
                    raise UserError(f"{found[name]} and {place} are both called {name}: keep one of them.")
                if not entry.is_file:
                    raise UserError(f"{place} is not a regular file: fetch the archive from another place.")
                found[name] = place
                yield Member(name, place, read_lines(archive, place, entry))
    missing = [name for name in names if name not in found]
    if missing:
        places = ", ".join(map(str, archives))
        raise UserError(f"there is no {' and no '.join(missing)} in {places}: check that these are the right archives.")


def is_named(path: str, name: str) -> bool:
    """Whether the path of a member ends in the name."""
    return f"/{path}".removesuffix(".gz").endswith("/" + name.removesuffix(".gz"))


def check_safe(archive: Path, entry: Entry) -> None:
    """Raises UserError if a member's path, or a link's target, is outside of the archive or too long."""
    if len(entry.path) > MAX_NAME:
        raise UserError(
            f"{archive} has a member whose name has {len(entry.path)} characters: do not trust this archive."
        )
    path = entry.path.replace("\\", "/")
    if ".." in path.split("/") or is_outside(path):
        raise UserError(f"{archive} has a member outside of its folder, {entry.path!r}: do not trust this archive.")
    if entry.target is not None and is_outside(entry.target.replace("\\", "/")):
        raise UserError(f"{archive} has a link out of its folder, {entry.path!r}: do not trust this archive.")


def is_outside(path: str) -> bool:
    """Whether a path is absolute, has a drive or leads above the folder that it starts in."""
    return ABSOLUTE.match(path) is not None or posixpath.normpath(path).split("/")[0] == ".."


def link_target(link: str, target: str) -> str:
    """Returns the target of a symbolic link as a path in the archive; an absolute target stays as it is."""
    return target if ABSOLUTE.match(target) else posixpath.join(posixpath.dirname(link), target)


def read_entries(archive: Path, granted: int = 0) -> Iterator[Entry]:
    """Yields the members of an archive in order; each must be opened before the next is requested.

    Args:
        granted: bytes of headers per member of a tar that do not count towards the limit.

    Raises:
        UserError: if the headers have more than ``MAX_HEADERS`` bytes.
    """
    try:
        with archive.open("rb") as file:
            if file.peek(4).startswith(ZIP):
                yield from read_zip(archive)
                return
            stream = unzipped(file)
            if is_tar(stream):
                yield from read_tar(stream, granted)
            else:
                yield Entry(archive.name, True, lambda: stream)
    except HeadersTooLargeError:
        raise UserError(
            f"{archive} describes its members in more than {MAX_HEADERS} bytes, which is too much: do not trust it."
        ) from None


def unzipped(stream: Stream) -> Stream:
    """The stream, unpacked if it is gzipped."""
    return gzip.GzipFile(fileobj=stream) if stream.peek(2).startswith(GZIP) else stream


def is_tar(stream: Stream) -> bool:
    """Whether a stream, which must be at its start, begins with the header of a tar."""
    header = stream.read(tarfile.BLOCKSIZE)
    stream.seek(0)
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class HeadersTooLargeError(Exception):
    """The headers of an archive have more bytes than is safe to hold in memory."""


class TarStream:
    """A stream for tarfile that limits the bytes of headers, and raises EOFError if a tar is truncated.

    tarfile by itself reads names of any length, and loops at the end of a truncated stream.
    """

    def __init__(self, stream: Stream) -> None:
        """Starts at the stream's current position."""
        self.stream, self.position, self.left = stream, 0, MAX_HEADERS
        self.in_headers = True  # False while a member's content is read

    def tell(self) -> int:
        """The position in bytes."""
        return self.position

    def seek(self, position: int) -> None:
        """Skips forward to a position; raises tarfile.StreamError if it is behind the current one."""
        if position < self.position:
            raise tarfile.StreamError
        while self.position < position:
            self._take(min(BUFFER, position - self.position))

    def read(self, size: int) -> bytes:
        """Returns 1 to ``size`` bytes; raises EOFError at the end, and HeadersTooLargeError beyond the limit."""
        if self.in_headers:
            self.left -= size
            if self.left < 0:
                raise HeadersTooLargeError
        return self._take(size)

    def _take(self, size: int) -> bytes:
        """Reads without the limit; raises EOFError at the end."""
        data = self.stream.read(size)
        if size and not data:
            raise EOFError
        self.position += len(data)
        return data


def read_tar(stream: Stream, granted: int) -> Iterator[Entry]:
    """Yields the members of a tar, then reads the stream to its end, so that gzip's checksum is verified."""
    tar_stream = TarStream(stream)
    with tarfile.TarFile(fileobj=tar_stream) as archive:  # type: ignore[arg-type]  # it only reads
        for info in iter(archive.next, None):
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps them all
            archive.pax_headers.clear()  # type: ignore[attr-defined]
            tar_stream.left = min(tar_stream.left + granted, MAX_HEADERS)
            target = info.linkname if info.islnk() else None
            if info.issym():
                target = link_target(info.name, info.linkname)
            tar_stream.in_headers = False
            content = partial(archive.extractfile, info)  # None for a folder, which is never opened
            yield Entry(info.name, info.isfile(), content, target, info.isdir())  # type: ignore[arg-type]
            tar_stream.in_headers = True
    while stream.read(BUFFER):
        pass


class ZipStream(io.BufferedReader):
    """A file for zipfile that limits the bytes of the directory, which zipfile reads at once."""

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next bytes; raises HeadersTooLargeError if more than ``MAX_HEADERS`` are requested at once."""
        if size is not None and size > MAX_HEADERS:
            raise HeadersTooLargeError
        return super().read(size)


def read_zip(archive: Path) -> Iterator[Entry]:
    """Yields the members of a zip."""
    with ZipStream(io.FileIO(archive)) as file, zipfile.ZipFile(file) as members:
        for info in members.infolist():
            mode, target = info.external_attr >> 16, None
            if stat.S_ISLNK(mode):
                linked = members.open(info).read(BUFFER).decode("utf-8", "surrogateescape")
                target = link_target(info.filename, linked)
            is_file = not info.is_dir() and stat.S_IFMT(mode) in (0, stat.S_IFREG)
            yield Entry(info.filename, is_file, partial(open_zipped, members, info), target, info.is_dir())


def open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> io.BufferedReader:
    """A buffered stream of a zip's member."""
    return io.BufferedReader(archive.open(info), BUFFER)  # type: ignore[arg-type]


def read_lines(archive: Path, place: str, entry: Entry) -> Iterator[bytes]:
    """Yields the lines of a member; raises UserError if one is longer than ``MAX_LINE`` bytes, or for damage."""
    with refusing_damage(archive), entry.open() as file:
        stream = unzipped(file)
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise UserError(
                    f"line {number} of {place} has more than {MAX_LINE} bytes, which no sentence has: "
                    "fetch the archive from another place."
                )
            yield line


@contextmanager
def refusing_damage(archive: Path) -> Iterator[None]:
    """Turns errors of reading a damaged archive into a UserError that names it; disk errors pass unchanged."""
    try:
        yield
    except UserError:
        raise
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise UserError(f"{archive} is damaged or not whole: remove it and fetch it again.") from None
