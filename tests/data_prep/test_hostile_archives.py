"""ea_fairseq/plain/containers.py, of archives that mean harm: little memory, and no escapes in what is said of them."""

import gzip
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.containers import open_members, read_entries
from small_archives import pack

PLAIN = {"x.de": b"eins\n", "x.en": b"one\n"}
MUCH = 30_000_000
LITTLE = 15_000_000  # bytes of memory


def header(name: str, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def blocks(data: bytes) -> bytes:
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)


def pax(name: str, value: str) -> bytes:
    """A record of a header of POSIX."""
    line = f" {name}={value}\n".encode()
    length = len(line)
    while len(str(length)) + len(line) != length:
        length = len(str(length)) + len(line)
    return str(length).encode() + line


def long_names(kind: bytes) -> Iterator[bytes]:
    yield header("././@LongLink", kind, MUCH) + blocks(b"n" * MUCH)


def long_properties(kind: bytes) -> Iterator[bytes]:
    data = pax("comment", "c" * MUCH)
    yield header("properties", kind, len(data)) + blocks(data)


def many_properties() -> Iterator[bytes]:
    for number in range(60):
        data = b"".join(pax(f"x{number}.{index}", "c" * 500) for index in range(1000))
        yield header("properties", tarfile.XGLTYPE, len(data)) + blocks(data)
        yield header(f"member {number}", tarfile.REGTYPE, 0)


def many_holes() -> Iterator[bytes]:
    info = bytearray(header("holes", tarfile.GNUTYPE_SPARSE, 0))
    info[482] = 1  # more of them follow
    info[148:156] = b"%06o\0 " % sum(info[:148] + b" " * 8 + info[156:])
    hole = (b"%011o " % 1 + b"%011o " % 0) * 21 + b"\1" + bytes(7)
    yield bytes(info) + hole * (MUCH // 512)


def many_holes_of_posix() -> Iterator[bytes]:
    data = pax("GNU.sparse.major", "1") + pax("GNU.sparse.minor", "0")
    yield header("properties", tarfile.XHDTYPE, len(data)) + blocks(data)
    yield header("holes", tarfile.REGTYPE, MUCH) + b"9999999999\n" + blocks(b"%015d\n" % 0 * (MUCH // 16))


def many_members() -> Iterator[bytes]:
    for number in range(30_000):
        yield header(f"member {number}", tarfile.REGTYPE, 0)


HEADERS = {
    "name": lambda: long_names(tarfile.GNUTYPE_LONGNAME),
    "link": lambda: long_names(tarfile.GNUTYPE_LONGLINK),
    "properties": lambda: long_properties(tarfile.XHDTYPE),
    "properties of all": lambda: long_properties(tarfile.XGLTYPE),
    "many properties of all": many_properties,
    "holes": many_holes,
    "holes of posix": many_holes_of_posix,
    "members": many_members,
}


def refusal(archive: Path) -> str:
    with pytest.raises(UserError) as refused:
        for member in open_members([archive], list(PLAIN)):
            list(member.lines)
    assert len(str(refused.value)) < 1000
    return str(refused.value)


def refused_in_little_memory(archive: Path) -> str:
    """What is said of the archive, of which little was held at once."""
    tracemalloc.start()
    try:
        return refusal(archive)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LITTLE


@pytest.mark.parametrize("make", HEADERS.values(), ids=HEADERS)
def test_headers_without_end_are_refused_before_they_are_held(tmp_path: Path, make):
    archive = tmp_path / "a.tgz"
    with gzip.open(archive, "wb", 1) as file:
        for part in make():
            file.write(part)
        file.write(pack(tmp_path / "plain.tar", PLAIN).read_bytes())
    sentence = refused_in_little_memory(archive)
    assert sentence.startswith(f"{archive} describes its members in more than")


def test_what_members_are_granted_does_not_pile_up(tmp_path: Path):
    """Properties of all members, other ones with each."""
    archive = tmp_path / "a.tar"
    with archive.open("wb") as file:
        for number in range(2000):
            data = pax(f"x{number}", "c" * 900)
            file.write(header("properties", tarfile.XGLTYPE, len(data)) + blocks(data))
            file.write(header(f"member {number}", tarfile.REGTYPE, 0))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
    tracemalloc.start()
    count = sum(1 for _ in read_entries(archive, granted=2048))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000 and peak < 1_000_000


def test_a_directory_of_a_zip_without_end_is_refused_before_it_is_held(tmp_path: Path):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(400):
            file.writestr(f"{number} {'n' * 60_000}", b"")
    assert refused_in_little_memory(archive).startswith(f"{archive} describes its members in more than")


@pytest.mark.parametrize("suffix", [".tgz", ".zip"])
def test_a_name_that_no_file_has_is_refused_and_not_shown(tmp_path: Path, suffix: str):
    archive = pack(tmp_path / f"a{suffix}", {f"../{'n' * 5000}": b"", **PLAIN})
    assert "has a member whose name has 5003 characters" in refusal(archive)


NAMES = ["\x1b[2J/x.de", "\x9b/x.de", "a\nb/x.de", "\u202e/x.de", "\udcff/x.de", "../\x1b]0;title\x07"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", [".tar", ".zip"])
def test_names_are_shown_without_what_steers_a_terminal(tmp_path: Path, name: str, suffix: str):
    if suffix == ".zip":
        name = name.replace("\udcff", "\xff")  # as zip keeps no bytes that are no text
    archive = pack(tmp_path / f"a{suffix}", {name: b"", "y/x.de": b""})
    sentence = refusal(archive)
    assert "are both called x.de" in sentence or "outside of its folder" in sentence
    assert printable(sentence).isprintable()
