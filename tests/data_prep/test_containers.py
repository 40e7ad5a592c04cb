"""ea_fairseq/plain/containers.py: the members of archives, whatever kind of archive and however spoilt."""

import gzip
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.plain.containers import open_members
from ea_fairseq.plain.text_lines import MAX_LINE
from small_archives import held_out_text, pack

PLAIN = {"x.de": b"eins\nzwei\n", "x.en": b"one\ntwo"}
NAMES = list(PLAIN)


def contents(*archives: Path, names=NAMES) -> dict[str, bytes]:
    return {member.name: b"".join(member.lines) for member in open_members(archives, names)}


def gzipped(members: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(data) for name, data in members.items()}


@pytest.mark.parametrize("suffix", [".tar", ".tgz", ".zip"])
@pytest.mark.parametrize(
    "members",
    [
        PLAIN,
        gzipped(PLAIN),
        {f"./mirror/training/{name}": data for name, data in PLAIN.items()},
        {"._x.de": b"\0\5\x16\7", "__MACOSX/training/._x.en": b"\0\5"} | PLAIN,
        {"other-x.de": b"no\n", "x.de.old": b"no\n", "x.en/note": b"no\n"} | PLAIN,
    ],
    ids=["plain", "gzipped", "prefixed", "with resource forks", "with similar names"],
)
def test_containers_make_no_difference(tmp_path: Path, members: dict[str, bytes], suffix: str):
    archive = pack(tmp_path / f"a{suffix}", members).rename(tmp_path / "renamed")
    assert contents(archive) == PLAIN
    assert list(tmp_path.iterdir()) == [archive]


def test_a_file_of_text_is_its_own_member(tmp_path: Path):
    for name, data in (PLAIN | gzipped(PLAIN)).items():
        (tmp_path / name).write_bytes(data)
    assert contents(tmp_path / "x.en", tmp_path / "x.de") == PLAIN
    assert contents(tmp_path / "x.de.gz", tmp_path / "x.en.gz") == PLAIN
    assert contents(tmp_path / "x.de", tmp_path / "x.en.gz", names=["x.de.gz", "x.en.gz"]) == {
        f"{name}.gz": data for name, data in PLAIN.items()
    }


def test_members_come_in_the_order_of_the_archives(tmp_path: Path):
    first = pack(tmp_path / "first.tar", {"b": b"1\n", "z": b"2\n", "a": b"3\n"})
    second = pack(tmp_path / "second.zip", {"c": b"4\n"})
    members = [(member.name, b"".join(member.lines)) for member in open_members([first, second], ["a", "b", "c"])]
    assert members == [("b", b"1\n"), ("a", b"3\n"), ("c", b"4\n")]


def test_members_must_be_there_once(tmp_path: Path):
    twice = pack(tmp_path / "a.tgz", {"a/x.de": b"a\n", "b/x.de": b"a\n", "x.en": b"a\n"})
    with pytest.raises(UserError, match=r"a/x.de in .*a.tgz and b/x.de in .*a.tgz are both called x.de"):
        contents(twice)
    assert contents(twice, names=["b/x.de"]) == {"b/x.de": b"a\n"}
    again = pack(tmp_path / "again.tgz", {"x.en": b"a\n"})
    with pytest.raises(UserError, match=r"x.en in .*/a.tgz and x.en in .*again.tgz are both called x.en"):
        contents(twice, again, names=["x.en"])
    page = tmp_path / "page.tgz"
    page.write_text("<html>Not here</html>")
    with pytest.raises(UserError, match=r"there is no y.de and no y.en in .*page.tgz, .*a.tgz"):
        contents(page, twice, names=["y.de", "y.en"])


def tar_with(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Path:
    """A tar.gz of the plain members, then of one of any kind."""
    with tarfile.open(pack(path.with_suffix(".tar"), PLAIN), "a") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)
    path.write_bytes(gzip.compress(path.with_suffix(".tar").read_bytes()))
    return path


def zip_with(path: Path, name: str, mode: int, data: str = "") -> Path:
    """A zip of the plain members, then of one of any kind."""
    with zipfile.ZipFile(pack(path, PLAIN), "a") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)
    return path


OUTSIDE = ["../up", "a/../../up", "a/../b", "/etc/x", "C:/x", "C:x", "a\\..\\..\\up", "..", "\\x"]
LINKS_OUT = [
    ("a/l", "../../up"),
    ("l", "/etc/passwd"),
    ("l", ".."),
    ("l", "C:\\x"),
    ("a/l", "C:x"),
    ("a/l", "\\x"),
    ("a/l", "..\\..\\up"),
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_members_outside_are_refused(tmp_path: Path, path: str):
    archives = [tar_with(tmp_path / f"{kind}.tgz", path, kind.encode()) for kind in "05"]
    archives.append(zip_with(tmp_path / "a.zip", path, 0o100644))
    before = sorted(tmp_path.parent.rglob("*"))
    for archive in archives:
        with pytest.raises(UserError, match=rf"{archive} has a member outside of its folder, '.*': do not trust"):
            contents(archive)
    assert sorted(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize(("path", "target"), LINKS_OUT)
def test_links_out_are_refused(tmp_path: Path, path: str, target: str):
    archives = [
        tar_with(tmp_path / "soft.tgz", path, tarfile.SYMTYPE, target),
        tar_with(tmp_path / "hard.tgz", path, tarfile.LNKTYPE, target),
        zip_with(tmp_path / "a.zip", path, 0o120777, target),
    ]
    for archive in archives:
        with pytest.raises(UserError, match=rf"{archive} has a link out of its folder, '{path}': do not trust"):
            contents(archive)


def test_links_within_are_no_matter(tmp_path: Path):
    assert contents(tar_with(tmp_path / "a.tgz", "a/b/link", tarfile.SYMTYPE, "../../x.de")) == PLAIN
    assert contents(tar_with(tmp_path / "b.tgz", "a/b/link", tarfile.LNKTYPE, "x.de")) == PLAIN
    assert contents(zip_with(tmp_path / "c.zip", "a/link", 0o120777, "../x.de")) == PLAIN


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_wanted_members_must_be_files(tmp_path: Path, kind: bytes):
    archive = tar_with(tmp_path / "a.tgz", "d/y.de", kind, "x.de")
    with pytest.raises(UserError, match=r"d/y\.de in .*a\.tgz is not a regular file"):
        contents(archive, names=["x.en", "y.de"])


@pytest.mark.parametrize("mode", [0o120777, 0o020644, 0o010644])
def test_wanted_members_of_a_zip_must_be_files(tmp_path: Path, mode: int):
    archive = zip_with(tmp_path / "a.zip", "d/y.de", mode, "x.de")
    with pytest.raises(UserError, match=r"d/y\.de in .*a\.zip is not a regular file"):
        contents(archive, names=["x.en", "y.de"])


def long_archive(folder: Path, name: str) -> tuple[Path, dict[str, bytes]]:
    text = held_out_text("de", "long", 60)
    members = {"README": text, "x.de": text, "x.en": text, "LICENSE": text}
    return pack(folder / name, members), dict.fromkeys(NAMES, text)


@pytest.mark.parametrize("name", ["a.tgz", "a.zip", "a.tar", "x.de.gz"])
def test_truncated_archives_are_refused(tmp_path: Path, name: str):
    if name == "x.de.gz":
        data = gzip.compress(held_out_text("de", "long", 60))
    else:
        data = long_archive(tmp_path, name)[0].read_bytes().rstrip(b"\0")
    for size in range(len(data) - 1, 600, -len(data) // 12):
        (tmp_path / "x.de.gz").write_bytes(data[:size])
        with pytest.raises(UserError, match=r"x\.de\.gz is damaged or not whole|no x\.(de|en) in .*x\.de\.gz"):
            contents(tmp_path / "x.de.gz", names=NAMES[:1] if name == "x.de.gz" else NAMES)


@given(place=st.integers(0, 10**6), flip=st.integers(1, 255), name=st.sampled_from(["a.tgz", "a.zip"]))
@settings(max_examples=200)
def test_a_changed_byte_is_harmless_or_refused(tmp_path_factory, place: int, flip: int, name: str):
    archive, expected = long_archive(tmp_path_factory.getbasetemp(), name)
    data = bytearray(archive.read_bytes())
    data[place % len(data)] ^= flip
    archive.write_bytes(data)
    with suppress(UserError):
        assert contents(archive) == expected


def test_damage_outside_of_members_is_refused(tmp_path: Path):
    trailer = bytearray(gzip.compress(pack(tmp_path / "a.tar", PLAIN).read_bytes() + bytes(10**6)))
    trailer[-6] ^= 1
    encrypted = bytearray(pack(tmp_path / "a.zip", PLAIN).read_bytes())
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    endless = bytearray(pack(tmp_path / "a.tar", PLAIN).read_bytes())
    endless[124:148] = b"\x80\0\0\x7f" + bytes(20)
    endless[148:156] = b"%06o\0 " % sum(endless[:148] + b" " * 8 + endless[156:512])
    unended = pack(tmp_path / "b.tar", PLAIN).read_bytes()[:2048]
    for data in (trailer, encrypted, endless, unended):
        (tmp_path / "spoilt").write_bytes(data)
        with pytest.raises(UserError, match="spoilt is damaged or not whole"):
            contents(tmp_path / "spoilt")


def test_lines_and_memory_are_bounded(tmp_path: Path):
    lines = pack(tmp_path / "lines.tgz", {"x.de": (b"many words " * 10_000 + b"\n") * 300, "x.en": b"a\n"})
    longest = pack(tmp_path / "longest.tgz", {"x.de": b"a" * (MAX_LINE - 1) + b"\n", "x.en": b"a\n"})
    endless = pack(tmp_path / "endless.tgz", {"x.de": gzip.compress(b"a\n" + bytes(10**8)), "x.en": b"a\n"})
    peaks = []
    for archive in (lines, longest, endless):
        tracemalloc.start()
        with suppress(UserError):
            for member in open_members([archive], NAMES):
                assert sum(map(len, member.lines)) > 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 5e6 and max(peaks) < 5 * MAX_LINE
    assert len(contents(longest)["x.de"]) == MAX_LINE
    with pytest.raises(UserError, match=rf"line 2 of x.de in .*endless.tgz has more than {MAX_LINE} bytes"):
        contents(endless)
