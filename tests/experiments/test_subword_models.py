"""Subword models beside a model from others: sound, or refused in a sentence."""

import os
import random
from pathlib import Path

import pytest

from preparations import CODES, SECRET, WHOLE, assert_one_sentence, read, write_model


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("a home"))


def spoil(model: Path, what: str) -> None:
    match what:
        case "link":
            model.symlink_to(model.parents[1] / "secret")
        case "folder":
            model.mkdir()
        case "pipe":
            os.mkfifo(model)
        case "large":
            with model.open("wb") as file:
                file.truncate(10**9)
        case "another file":
            model.write_text(f"{SECRET}\n" * 3)
        case "empty":
            model.touch()
        case "bytes":
            model.write_bytes(random.Random(1).randbytes(1000))


@pytest.mark.parametrize("subword", ["bpe", "sentencepiece"])
@pytest.mark.parametrize("what", ["link", "folder", "pipe", "large", "another file", "empty", "bytes"])
def test_a_bad_subword_model_is_refused_and_not_shown(home, capfd, subword, what):
    model = home / f"{what} for {subword}"
    spoil(model, what)
    sentence = read(home, WHOLE | {"subword": subword, "models": [model.name]})
    assert_one_sentence(sentence, home)
    assert str(model) in sentence and SECRET not in "".join(capfd.readouterr())


MERGES = {
    "of three": "a b\na b c\n",
    "of one": "a b\nab\n",
    "of none": "",
    "apart": "a b\n\na b\n",
    "of two lines for some": "a\rb c\n",
}
VERSIONS = {
    "another": "#version: 3\n",
    "none": "#version: evil\n",
    "a slow one": "#version: " + ".0" * 100_000 + "x\n",
    "no line": "",
}


@pytest.mark.parametrize("codes", MERGES.values(), ids=MERGES)
def test_merges_that_subword_nmt_would_end_at_are_refused_by_their_line(home, capfd, codes):
    (home / "merges").write_bytes(f"#version: 0.2\n{codes}".encode())
    sentence = read(home, WHOLE | {"models": ["merges"]})
    assert_one_sentence(sentence, home)
    assert f"{home}/merges is not a merge of BPE" in sentence and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_merges_of_another_version_or_none_are_refused(home, capfd, version):
    """subword-nmt takes those of none for version 0.1's, and segments words otherwise."""
    (home / "merges").write_text(version + CODES.removeprefix("#version: 0.2\n"))
    sentence = read(home, WHOLE | {"models": ["merges"]})
    assert_one_sentence(sentence, home)
    assert f"line 1 of {home}/merges is not '#version: 0.2' or 0.1" in sentence and capfd.readouterr() == ("", "")


def test_merges_need_no_end(home):
    (home / "merges").write_text(CODES.rstrip())
    assert read(home, WHOLE | {"models": ["merges"]}).preparer("de")("Hunde") == "Hun@@ d@@ e"
    (home / "merges").write_bytes(CODES.replace("\n", "\r\n").encode() + b"\n\n")
    assert read(home, WHOLE | {"models": ["merges"]}).preparer("de")("Hund") == "Hund"
