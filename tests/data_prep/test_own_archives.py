"""--archives: archives that the user has already."""

import os
from pathlib import Path

import pytest

from downloads import FILES, FIRST, TGZ, ZIP, ZIPPED, Download, checksum
from mirror import Mirror


@pytest.fixture
def mirror():
    with Mirror(FILES) as mirror:
        yield mirror


@pytest.fixture
def corpus(tmp_path: Path, mirror: Mirror) -> Download:
    return Download(tmp_path, mirror.url)


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


def test_archive_that_the_user_lacks_is_downloaded(corpus: Download, mirror: Mirror, tmp_path: Path):
    (tmp_path / "own/corpus.tgz").mkdir(parents=True)
    (tmp_path / "own/another.tgz").write_bytes(TGZ)
    corpus.assert_gave(corpus.run("--archives", tmp_path / "own"), FIRST)
    assert len(mirror.visits) == 1
