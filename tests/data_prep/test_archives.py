"""ea_fairseq/data/archives.tsv, and the checks of a file against it."""

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.data.archives import TABLE, Place, WrongFileError, read_table, verify

HEADER = "archive\tsize\tchecksum\taddress"
MD5, SHA256 = "md5:" + "0" * 32, "sha256:" + "0" * 64
ADDRESS = "https://host/a/file.tgz"


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
        assert re.fullmatch(r"\w[\w.-]*", archive) and all(place.archive == archive for place in places)
        assert all(re.fullmatch(r"https://[^/?#]+/[!-~]*[^/.?#]", place.address) for place in places)
        assert all(re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", place.checksum) for place in places)
        sizes = {}
        for place in places:
            assert sizes.setdefault(place.checksum, place.size) == place.size


def test_reads_places_in_order_between_comments(tmp_path: Path):
    lines = ["# places", HEADER, "", f"x\t12\t{SHA256}\t{ADDRESS}", "# more", f"x\t-\t{MD5}\thttp://h/b.zip"]
    (tmp_path / "a table.tsv").write_text("\n".join(lines))
    table = read_table(tmp_path / "a table.tsv")
    assert table == {"x": [Place("x", 12, SHA256, ADDRESS), Place("x", None, MD5, "http://h/b.zip")]}
    assert [place.file for place in table["x"]] == ["file.tgz", "b.zip"]


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
