"""Archives: the table of places, the checks of a file against it, and those that the user has already."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downloads import FIRST, TGZ, ZIP, ZIPPED, Download, checksum
from ea_fairseq.data.archives import TABLE, Place, Sources, WrongFileError, read_table, verify
from ea_fairseq.data.plan import Plan
from mirror import Mirror

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
    expected = checksum(wanted, algorithm)
    place = Place("x", len(wanted) if sized else None, expected, ADDRESS)
    sha256 = checksum(found)
    if wanted == found:
        assert verify(path, place) == sha256
        return
    with pytest.raises(WrongFileError) as error:
        verify(path, place)
    by_size = sized and len(wanted) != len(found)
    assert (f"expected {len(wanted)} bytes" if by_size else f"expected {expected}") in str(error.value)
    assert str(path) in str(error.value) and f"--accept x={sha256}" in str(error.value)


@pytest.mark.parametrize("place", [".", "a folder"])
def test_own_archive_is_used_where_it_is(corpus: Download, mirror: Mirror, tmp_path: Path, place: str):
    own = tmp_path / "own" / place / "corpus.zip"
    own.parent.mkdir(parents=True)
    own.write_bytes(ZIP)
    (tmp_path / "here").symlink_to(tmp_path / "own")
    corpus.begin(TGZ)
    corpus.assert_gave(corpus.run("--archives", tmp_path / "here"), ZIPPED)
    link = corpus.archive / "corpus.zip"
    assert link.is_symlink() and link.readlink() == own.resolve()
    assert not mirror.visits


def test_relative_archives_folder_makes_an_absolute_link(corpus: Download):
    own = corpus.folder / "corpus.zip"
    own.write_bytes(ZIP)
    corpus.assert_gave(corpus.run("--archives", os.path.relpath(corpus.folder)), ZIPPED)
    assert (corpus.archive / "corpus.zip").readlink() == own.resolve()


def test_an_archive_that_was_downloaded_here_is_kept_when_its_folder_is_made_anew(corpus: Download):
    corpus.archive.mkdir()
    first = corpus.archive.rename(corpus.folder / "corpus")
    (first / "corpus.zip").write_bytes(ZIP)
    corpus.assert_gave(corpus.run("--archives", first), ZIPPED)
    (first / "corpus.zip").unlink()  # as what is made anew takes its place
    assert (corpus.archive / "corpus.zip").read_bytes() == ZIP


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [(TGZ[:-1], "expected 300000 bytes, found 299999 bytes"), (bytes(300_000), f"expected {checksum(TGZ)}, found")],
    ids=["size", "checksum"],
)
def test_wrong_own_archive_is_refused_unless_accepted(corpus: Download, mirror: Mirror, wrong: bytes, fault: str):
    own = corpus.folder / "corpus.tgz"
    own.write_bytes(wrong)
    accept = f"--accept corpus={checksum(wrong)}"
    corpus.assert_refused(corpus.run("--archives", corpus.folder), str(own), fault, accept)
    result = corpus.run("--archives", corpus.folder, "--mirror", "http://nowhere.invalid/", *accept.split())
    assert result.returncode == 0, result.stderr
    assert (corpus.archive / "corpus.tgz").resolve() == own.resolve()
    assert corpus.source()["accepted"] and corpus.source()["size"] == len(wrong)
    assert not mirror.visits


def test_right_archive_is_found_among_others_of_its_name(corpus: Download, tmp_path: Path):
    for folder, data in (("1", bytes(5)), ("2", TGZ), ("3", bytes(300_000))):
        (tmp_path / "own" / folder).mkdir(parents=True)
        (tmp_path / "own" / folder / "corpus.tgz").write_bytes(data)
    corpus.assert_gave(corpus.run("--archives", tmp_path / "own"), FIRST)


def test_another_archives_file_of_its_name_is_passed_over(corpus: Download, mirror: Mirror, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/corpus.tgz").write_bytes(b"another")
    corpus.assert_refused(corpus.run("--archives", tmp_path / "own"), "is not the archive corpus")
    with corpus.table.open("a") as table:
        table.write(f"another\t-\t{checksum(b'another')}\t{mirror.url}/z/corpus.tgz\n")
    corpus.assert_gave(corpus.run("--archives", tmp_path / "own"), FIRST)


def test_the_plan_names_the_place_that_is_asked(tmp_path: Path):
    place = Place("x", 3, SHA256, ADDRESS)
    (tmp_path / "file.tgz").write_bytes(b"other")  # of another size
    for options, expected in (({}, ADDRESS), ({"own": tmp_path, "mirror": "http://m/b/"}, "http://m/b/a/file.tgz")):
        plan = Plan()
        Sources({"x": [place]}, **options).plan(plan, "x")
        assert plan.steps["archives/x"].remark == f"from {expected}"


def test_archive_that_the_user_lacks_is_downloaded(corpus: Download, mirror: Mirror, tmp_path: Path):
    (tmp_path / "own/corpus.tgz").mkdir(parents=True)
    (tmp_path / "own/another.tgz").write_bytes(TGZ)
    corpus.assert_gave(corpus.run("--archives", tmp_path / "own"), FIRST)
    assert len(mirror.visits) == 1
