"""The embedded corpus: its text is that of the published results, and comes whole or not at all."""

import subprocess
import sys
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path

import pytest

from ea_fairseq.data import embedded_corpus
from ea_fairseq.errors import UserError

PUBLISHED = {  # lines and SHA-256 of the text that docs/results/12-quick-start and checkpoints/ were made from
    "test.de": (500, "3ecfba73110f011835b378edb5bdefb6d6f6ae487083ebbbd0c6b6cbd1fccea2"),
    "test.en": (500, "e26900d83461dc0b60d24a6e00e917d7387767b0b4261b1e5b62a625fe283b28"),
    "test.word-for-word.en": (500, "8088de51f808bc48f8393ad2e6142c4e865ef2c0e94ec70d3c5b25d38ce225dc"),
    "train.de": (24000, "f83433f18ff12cad30338b79d152655f91b8f95eaa79f351a696481a97b8c2be"),
    "train.en": (24000, "244b85e1837dedb19c000977a7d6b83da56d7c267c556f1dbc3318e6d59d4697"),
    "valid.de": (500, "c7fc334832e34ffea0a2acbfea6a7f65cc451a10039ad4f3a2b53019a3212b6e"),
    "valid.en": (500, "39137bc99874a2f88e183706d15a53198a699d5a5d934e8005cd751780bfa098"),
}


def write_corpus(out: Path) -> None:
    embedded_corpus.write(out, embedded_corpus.unpack())


def test_it_is_the_corpus_of_the_published_results(tmp_path):
    """Else the quick start finds no published seeds to show."""
    for _ in range(2):  # into the folder of an earlier run, too
        write_corpus(tmp_path / "out")
        found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        assert {name: (text.count(b"\n"), sha256(text).hexdigest()) for name, text in found.items()} == PUBLISHED


@pytest.mark.parametrize("damage", [None, lambda whole: whole[:-1], lambda whole: whole.replace(b"a", b"b", 1)])
def test_a_damaged_archive_leaves_nothing(tmp_path, monkeypatch, damage):
    damaged = tmp_path / "damaged.tar.bz2"
    if damage:
        damaged.write_bytes(damage(embedded_corpus.ARCHIVE.read_bytes()))
    monkeypatch.setattr(embedded_corpus, "ARCHIVE", damaged)
    with pytest.raises(UserError, match=r"damaged\.tar\.bz2 is missing, damaged or another file: take it from"):
        write_corpus(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_out_is_a_file(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    command = [sys.executable, "-m", "ea_fairseq", "corpus", "--out", str(taken)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("corpus: ") and str(taken) in ran.stderr
    assert taken.read_text() == "mine"


def test_a_corpus_of_others_is_left_as_it_is(tmp_path):
    (tmp_path / "train.de").write_text("mine")
    with pytest.raises(UserError, match="holds other files: give a new folder"):
        write_corpus(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    write = Path.write_bytes

    def fill(path: Path, content: bytes) -> int:
        if path.name == "train.en.tmp":
            write(path, content[:1000])
            raise OSError(ENOSPC, "No space left on device", str(path))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match=r"No space left on device.*train\.en\.tmp"):
        write_corpus(tmp_path)
    assert not list(tmp_path.iterdir())
