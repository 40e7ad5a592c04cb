"""data-prep/archives.tsv, how it is read, and the checks of a file against it."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.data.archives import Place, WrongFileError, parse_checksum, read_table, verify
from ea_fairseq.data.download import TABLE
from ea_fairseq.errors import UserError

HEADER = "archive\tsize\tchecksum\taddress\n"
MD5, SHA256 = "md5:" + "0" * 32, "sha256:" + "0" * 64
ADDRESS = "https://host/a/file.tgz"


def write(folder: Path, text: str) -> Path:
    path = folder / "a table.tsv"
    path.write_bytes(text.encode())
    return path


def test_every_archive_has_two_places():
    table = read_table(TABLE)
    papers = {"iwslt14-de-en", "europarl-v7", "commoncrawl", "un", "nc-v9", "nc-v12", "giga-fren", "dev", "test-full"}
    splits = ("train", "val", "test_2016_flickr")
    multi30k = {f"multi30k-{split}.{language}" for split in splits for language in ("de", "en", "fr")}
    # see test_prepare_glue.py and test_prepare_uea.py
    of_encoders = {name for name in table if name.startswith(("glue-", "sst-5-", "uea-"))}
    assert set(table) == papers | multi30k | of_encoders
    for archive, places in table.items():
        assert len({place.address for place in places}) == len(places) >= (1 if archive in of_encoders else 2)
        assert all(place.archive == archive and place.address.startswith("https://") for place in places)
        sizes = {}
        for place in places:
            assert sizes.setdefault(place.checksum, place.size) == place.size


def test_reads_places_in_order_between_comments(tmp_path: Path):
    lines = [
        "# places",
        HEADER.strip(),
        "",
        f"x\t12\t{SHA256}\t{ADDRESS}",
        "# more",
        f"x\t-\t{MD5.upper()}\thttp://h/b.zip",
    ]
    table = read_table(write(tmp_path, "\ufeff" + "\r\n".join(lines)))
    assert table == {"x": [Place("x", 12, SHA256, ADDRESS), Place("x", None, MD5, "http://h/b.zip")]}
    assert [place.file for place in table["x"]] == ["file.tgz", "b.zip"]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (f"x\t12\t{SHA256}", "an address"),
        (f"x\t12\t{SHA256}\t{ADDRESS}\tmore", "an address"),
        (f"../x\t12\t{SHA256}\t{ADDRESS}", "'../x' is no name"),
        (f"x\tbig\t{SHA256}\t{ADDRESS}", "'big' is not a size"),
        (f"x\t0\t{SHA256}\t{ADDRESS}", "'0' is not a size"),
        (f"x\t12\t{SHA256[:-1]}\t{ADDRESS}", "is not a checksum"),
        (f"x\t12\t{SHA256}\tfile:///etc/passwd", "is not an address"),
        (f"x\t12\t{SHA256}\thttps://host/folder/", "is not an address"),
        (f"x\t12\t{SHA256}\thttps://host/..", "is not an address"),
        (f"x\t12\t{SHA256}\thttps://host/ä", "is not an address"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, line: str, part: str):
    with pytest.raises(UserError) as error:
        read_table(write(tmp_path, f"# places\n{HEADER}x\t-\t{MD5}\t{ADDRESS}\n{line}\n"))
    assert f"line 4 of {tmp_path}/a table.tsv" in str(error.value) and part in str(error.value)


@pytest.mark.parametrize("text", ["", "# places\n", f"x\t-\t{MD5}\t{ADDRESS}\n"])
def test_table_without_header_is_refused(tmp_path: Path, text: str):
    with pytest.raises(UserError, match="must begin with the names of its columns: archive size checksum address"):
        read_table(write(tmp_path, text))


def test_table_that_is_not_text_is_refused(tmp_path: Path):
    (tmp_path / "table").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read_table(tmp_path / "table")


@pytest.mark.parametrize(
    "text", ["", "md5", "md5:", MD5 + "0", SHA256[:-1] + "g", "sha1:" + "0" * 40, "0" * 64, MD5 + "\n"]
)
def test_other_checksums_are_refused(text: str):
    with pytest.raises(UserError, match="is not a checksum"):
        parse_checksum(text)


@given(st.binary(), st.binary(), st.sampled_from(["md5", "sha256"]), st.booleans())
def test_only_the_same_bytes_verify(tmp_path_factory, wanted: bytes, found: bytes, algorithm: str, sized: bool):
    path = tmp_path_factory.getbasetemp() / "verified.tgz"
    path.write_bytes(found)
    checksum = f"{algorithm}:{hashlib.new(algorithm, wanted).hexdigest()}"
    place = Place("x", len(wanted) if sized else None, checksum, ADDRESS)
    sha256 = f"sha256:{hashlib.sha256(found).hexdigest()}"
    if wanted == found:
        assert verify(path, place) == sha256
        return
    with pytest.raises(WrongFileError) as error:
        verify(path, place)
    by_size = sized and len(wanted) != len(found)
    assert (f"expected {len(wanted)} bytes" if by_size else f"expected {checksum}") in str(error.value)
    assert str(path) in str(error.value) and f"--accept x={sha256}" in str(error.value)
