"""data-prep/prepare-masked-lm.sh: one language of sentence pairs."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from commands import ROOT
from corpora import checksums, warm_environment
from ea_fairseq.text.preparation import Preparation

SCRIPT = ROOT / "data-prep" / "prepare-masked-lm.sh"
SIZE = 10_000


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """What looks like prepared sentence pairs."""
    data = tmp_path / "some pairs" / "data-bin"
    data.mkdir(parents=True)
    (data.parent / ".stages").mkdir()
    for language in ("de", "en"):
        (data / f"dict.{language}.txt").write_text(f"{language} 1\n")
        for split in ("train", "valid", "test"):
            for kind in ("bin", "idx"):
                (data / f"{split}.de-en.{language}.{kind}").write_bytes(f"{split} {kind}".encode().ljust(SIZE))
    return data.parent


def take(*arguments: object, limit: str = "unlimited") -> subprocess.CompletedProcess:
    command = ["bash", "-c", f'ulimit -f {limit} && exec bash "$@"', "bash", SCRIPT, "--language", "en", *arguments]
    return subprocess.run(map(str, command), env=warm_environment(), cwd="/", capture_output=True, text=True)


def test_it_takes_one_side_and_its_dictionary(pairs: Path, tmp_path: Path):
    result = take(pairs, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    data = tmp_path / "out" / "data-bin"
    splits = {f"{split}.{kind}" for split in ("train", "valid", "test") for kind in ("bin", "idx")}
    assert {path.name for path in data.iterdir()} == {"dict.txt", "manifest.json"} | splits
    assert (data / "dict.txt").read_text() == "en 1\n"
    assert (data / "valid.idx").read_bytes() == (pairs / "data-bin" / "valid.de-en.en.idx").read_bytes()


@pytest.mark.parametrize(("models", "taken"), [(["bpe.codes"], "bpe.codes"), (["de.model", "en.model"], "en.model")])
def test_how_words_were_cut_goes_with_them(pairs: Path, tmp_path: Path, models: list[str], taken: str):
    take(pairs, tmp_path / "out")  # before anything was known of that
    cut = {"tokenizer": "moses", "normalize": True, "dash_splits": False, "lowercase": True, "subword": "bpe"}
    languages = {"source_lang": "de", "target_lang": "en"}
    (pairs / "data-bin" / "preparation.json").write_text(json.dumps(languages | cut | {"models": models}))
    for model in models:
        (pairs / "data-bin" / model).write_text(model)
    result = take(pairs, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    data = tmp_path / "out" / "data-bin"
    assert json.loads((data / "preparation.json").read_text()) == cut | {"language": "en", "models": [taken]}
    assert (data / taken).read_text() == taken
    (pairs / "data-bin" / "manifest.json").write_text("some")
    take(pairs, tmp_path / "out")
    manifest = json.loads((data / "manifest.json").read_text())
    assert {path.name for path in data.iterdir()} == {*manifest["files"], "manifest.json"}
    assert manifest["sources"] == [{"file": "manifest.json", "sha256": hashlib.sha256(b"some").hexdigest()}]
    assert Preparation.read(data) == Preparation(data, "moses", True, "bpe", [taken])


CUT = '"tokenizer": "none", "normalize": false, "dash_splits": false, "lowercase": false, "subword": "bpe"'
SIDES = '"source_lang": "de", "target_lang": "en"'


@pytest.mark.parametrize("text", ["{", f"{{{SIDES}}}", f'{{{SIDES}, {CUT}, "models": ["../../secret"]}}'])
def test_a_preparation_that_is_none_is_named(pairs: Path, tmp_path: Path, text: str):
    (tmp_path / "secret").write_text("secret")
    (pairs / "data-bin" / "preparation.json").write_text(text)
    result = take(pairs, tmp_path / "out")
    assert result.returncode == 1 and "preparation.json is not what a preparation writes" in result.stderr
    assert not list((tmp_path / "out").glob("data-bin*"))


def test_it_does_not_take_the_place_of_the_pairs(pairs: Path):
    before = checksums(pairs)
    result = take(pairs, pairs / ".." / pairs.name)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "give another folder for the output" in result.stderr
    assert checksums(pairs) == before


def test_what_cannot_be_copied_wholly_is_not_there(pairs: Path, tmp_path: Path):
    (pairs / "data-bin" / "test.de-en.en.idx").write_text("small")  # which is copied last
    result = take(pairs, tmp_path / "out", limit=str(SIZE // 2 // 1024))
    assert result.returncode != 0
    assert not list((tmp_path / "out").glob("data-bin*"))
