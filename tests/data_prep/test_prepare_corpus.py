"""Preparations of text of one's own, and their steps, on corpora of a few dozen lines."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import ROOT
from corpora import (
    LANGUAGES,
    LOWERCASED,
    NO_LINE_FEED,
    SCRIPT,
    SIZES,
    WORDS,
    environment,
    prepare,
    prepared,
    sentence,
    write_corpus,
)
from dataset_runs import assert_one_sentence
from ea_fairseq.data.checked_text import check_file
from ea_fairseq.data.prepare import data_set, data_set_names, usage
from ea_fairseq.data.text_plan import tool_version
from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import read_lines


def times(out: Path) -> dict[Path, int]:
    files = [path for path in out.rglob("*") if path.is_file() and "logs" not in path.parts]
    return {path.relative_to(out): path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("plain") / "a corpus")


@pytest.fixture(scope="module")
def rough_corpus(tmp_path_factory) -> Path:
    """Gzipped train with pairs to drop, a byte order mark, carriage returns and other breaks within lines."""
    folder = write_corpus(tmp_path_factory.mktemp("rough") / "a corpus")
    for language in WORDS:
        lines = [sentence(language, number) for number in range(SIZES["train"])]
        lines[0] = "\ufeff" + lines[0]
        lines[1] = lines[1].replace(" ", "\u2028", 1)
        lines[2] = lines[2].replace(" ", "\x0b", 1).replace(" ", "\x85", 1)
        lines[3] = lines[3].replace(" ", "\0", 1)
        lines[4] = "" if language == "de" else lines[4]
        lines[5] = "Hund" if language == "de" else lines[5]
        lines[6] = " ".join(["und"] * 200)
        lines[7] = "Er sagt: „Ja & nein“ [1]" if language == "de" else "He has said: “Yes & no” [1]"
        (folder / f"train.{language}").unlink()
        with gzip.open(folder / f"train.{language}.gz", "wb") as file:
            file.write("\r\n".join(lines).encode())
    return folder


@pytest.fixture(scope="module")
def lowercased(rough_corpus: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("lowercased") / "an output & more"
    prepared(*LOWERCASED, rough_corpus, out)
    return out


def test_prepares_moses_and_joint_bpe(lowercased: Path):
    data = lowercased / "data-bin"
    preparation = json.loads((data / "preparation.json").read_text())
    assert preparation["lowercase"] is preparation["normalize"] is True
    assert preparation["models"] == ["bpe.codes"]

    assert (data / "dict.de.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    assert (data / "bpe.codes").read_bytes() == (lowercased / "bpe.codes").read_bytes()
    names = {f"{split}.de-en.{side}.{kind}" for split in SIZES for side in WORDS for kind in ("bin", "idx")}
    others = {"dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json", "manifest.json"}
    assert {path.name for path in data.iterdir()} == names | others

    cleaned = {language: list(read_lines(lowercased / f"cleaned/train/text.{language}")) for language in WORDS}
    assert cleaned["de"][0] == " ".join(sentence("de", 0).lower().removesuffix(".").split()) + " ."
    assert cleaned["de"][1] == " ".join(sentence("de", 1).lower().removesuffix(".").split()) + " ."
    assert cleaned["de"][4] == "er sagt : &quot; ja &amp; nein &quot; &#91; 1 &#93;"
    assert cleaned["en"][4] == "he has said : &quot; yes &amp; no &quot; &#91; 1 &#93;"
    for language in WORDS:
        segmented = read_lines(lowercased / f"subword/train/text.{language}")
        assert [line.replace("@@ ", "") for line in segmented] == cleaned[language]


def test_manifest_says_what_the_data_is_made_from(rough_corpus: Path, lowercased: Path):
    data = lowercased / "data-bin"
    manifest = json.loads((data / "manifest.json").read_text())
    train = manifest["splits"]["train"]
    assert [step["step"] for step in train["steps"]] == ["read", "tokenize", "clean", "subword"]
    clean = train["steps"][2]
    assert (clean["read"], clean["kept"]) == (40, 37)
    assert {reason: number for reason, number in clean["dropped"].items() if number} == {
        "empty": 1,
        "too_long": 1,
        "ratio": 1,
    }
    assert [manifest["splits"][split]["pairs"] for split in SIZES] == [37, 6, 5]
    for language in WORDS:
        segmented = (lowercased / f"subword/train/text.{language}").read_text().split()
        assert train["tokens"][language] == len(segmented)
        entries = len((data / f"dict.{language}.txt").read_text().splitlines())
        assert manifest["dictionary_sizes"][language] == entries + 4
        assert {
            "file": f"train.{language}.gz",
            "sha256": check_file(rough_corpus / f"train.{language}.gz", f"train.{language}").checksum,
        } in manifest["sources"]
    assert set(manifest["versions"]) == {"python", "fairseq", "sacremoses", "regex", "subword-nmt"}
    assert manifest["settings"]["merges"] == 80
    for name, checksum in manifest["files"].items():
        assert checksum == f"sha256:{hashlib.sha256((data / name).read_bytes()).hexdigest()}"
    assert {path.name for path in data.iterdir()} == {*manifest["files"], "manifest.json"}


def test_second_run_changes_nothing(rough_corpus: Path, lowercased: Path):
    before = times(lowercased)
    prepared(*LOWERCASED, rough_corpus, lowercased)
    assert times(lowercased) == before


def test_changed_flag_remakes_what_depends_on_it(rough_corpus: Path, lowercased: Path, tmp_path: Path):
    out = shutil.copytree(lowercased, tmp_path / "a copy")
    before = times(out)
    prepared(*LOWERCASED, "--separate-subword", rough_corpus, out)
    changed = {path.parts[0] for path, at in times(out).items() if before.get(path) != at}
    assert changed == {".stages", "bpe.de.codes", "bpe.en.codes", "subword", "data-bin"}
    assert {path.name for path in (out / "data-bin").glob("bpe.*")} == {"bpe.de.codes", "bpe.en.codes"}


def spoil(corpus: Path, what: str) -> None:
    train, valid = corpus / "train.de", corpus / "valid.en"
    match what:
        case "unequal":
            train.write_text(train.read_text() + "noch eine\n")
        case "empty split":
            valid.write_text("")
        case "empty line":
            lines = valid.read_text().split("\n")
            valid.write_text("\n".join([lines[0], " \x0b\u2028", *lines[2:]]))
        case "not UTF-8":
            train.write_bytes(train.read_bytes().replace(b"\n", b"\xff\n", 3).replace(b"\xff", b"", 2))
        case "missing":
            train.unlink()
        case "truncated":
            (corpus / "train.de.gz").write_bytes(gzip.compress(train.read_bytes())[:-20])
            train.unlink()
        case "both":
            (corpus / "train.de.gz").write_bytes(gzip.compress(train.read_bytes()))


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("unequal", ["train.de has 41 lines", "train.en has 40"]),
        ("empty split", ["valid.en is empty"]),
        ("empty line", ["line 2 of", "valid.en is empty"]),
        ("not UTF-8", ["line 3 of", "train.de is not UTF-8"]),
        ("missing", ["neither train.de nor train.de.gz"]),
        ("truncated", ["train.de.gz is not a whole gzip file"]),
        ("both", ["has both train.de and train.de.gz"]),
    ],
)
def test_spoilt_corpus_is_refused_before_anything_is_written(tmp_path: Path, what: str, parts: list[str]):
    corpus = write_corpus(tmp_path / "a corpus")
    spoil(corpus, what)
    assert_one_sentence(prepare(*LANGUAGES, corpus, tmp_path / "out"), *parts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([*LANGUAGES, "--frobnicate"], "no option --frobnicate"),
        ([*LANGUAGES, "--merges", "many"], "not 'many'"),
        ([*LANGUAGES, "--vocab-size", "0"], "not '0'"),
        ([*LANGUAGES, "--max-length", "-3"], "not '-3'"),
        ([*LANGUAGES, "--workers", ""], "not ''"),
        ([*LANGUAGES, "--ratio", "half"], "not 'half'"),
        ([*LANGUAGES, "--tokenizer", "spaces"], "--tokenizer: invalid choice: 'spaces'"),
        ([*LANGUAGES, "--subword", "words"], "--subword: invalid choice: 'words'"),
        ([*LANGUAGES, "third"], "give CORPUS_DIR and OUT_DIR, not 3 words"),
        (["--source-lang", "de"], "--target-lang needs a language"),
        (["--source-lang", "de", "--target-lang", "de"], "must differ"),
    ],
)
def test_wrong_arguments_are_refused(corpus: Path, tmp_path: Path, arguments: list[str], part: str):
    assert_one_sentence(prepare(*arguments, corpus, tmp_path / "out"), part)
    assert not (tmp_path / "out").exists()


def test_missing_values_are_refused(corpus: Path):
    assert_one_sentence(prepare("--merges"), "--merges needs a value")
    assert_one_sentence(prepare(*LANGUAGES, corpus, ""), "name of a folder is empty")


def test_folders_that_will_not_do_are_refused(corpus: Path, tmp_path: Path):
    assert_one_sentence(prepare(*LANGUAGES, tmp_path / "none", tmp_path / "out"), "there is no folder")
    assert_one_sentence(prepare(*LANGUAGES, corpus, corpus), "holds other files")
    assert_one_sentence(prepare(*LANGUAGES, corpus, corpus / "train.de"), "is not a folder")
    assert_one_sentence(prepare(*LANGUAGES, corpus, corpus / "train.de/out"), "cannot write in")


def test_full_disk_and_small_corpus_leave_no_data(corpus: Path, tmp_path: Path):
    out = tmp_path / "an output"
    plain = [*LANGUAGES, "--tokenizer", "none", "--workers", "1"]
    limited = ["bash", "-c", 'ulimit -f 1 && exec bash "$@"', "bash", SCRIPT, *plain, corpus, out]
    failed = subprocess.run(limited, env=environment(), cwd="/", capture_output=True, text=True)
    assert_one_sentence(failed, "File too large", "text.de")
    assert_one_sentence(prepare(*plain, "--max-length", "2", corpus, out), "leaves no pair")
    assert_one_sentence(prepare(*plain, "--subword", "sentencepiece", corpus, out), "--vocab-size 8000")
    assert not list(out.glob("data-bin*")) and not list(out.rglob("*.tmp"))


def test_missing_tools_are_named(corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "subword_nmt", None)
    chosen = data_set("corpus")
    options = chosen.options([*LANGUAGES, str(corpus), str(tmp_path / "out")])
    with pytest.raises(UserError, match=r"subword-nmt is not installed: .* pip install subword-nmt"):
        chosen.prepare(options)
    with pytest.raises(UserError, match="pip install no-such-tool"):
        tool_version("no-such-tool")


NO_SENTENCES = {"cifar10", "digits", "masked-lm", "planetoid", "rationales", "uea"}  # they have fewer options


@pytest.mark.parametrize("name", sorted({*data_set_names()} - NO_SENTENCES))
def test_help_has_an_example(name: str):
    script = SCRIPT.with_name(f"prepare-{name}.sh")
    result = subprocess.run(["bash", script, "--help"], cwd="/", capture_output=True, text=True, check=True)
    assert result.stdout.startswith(f"usage: ea-fairseq prepare {name} [options] ")
    assert f"\nexample:\n  ea-fairseq prepare {name} " in result.stdout
    for option in ("--workers", "--dry-run", "--subsample", "--compress"):
        assert f"\n  {option} " in result.stdout


def test_every_data_set_is_listed_and_documented_and_has_a_script():
    listed, page = usage(), (ROOT / "docs/data.md").read_text()
    for name in data_set_names():
        assert data_set(name).name == name and f"\n  {name} " in listed and f"\n| `{name}` |" in page
    assert {f"prepare-{name}.sh" for name in data_set_names()} == {
        script.name for script in SCRIPT.parent.glob("prepare-*.sh")
    }
    with pytest.raises(UserError, match="there is no data set corpora"):
        data_set("corpora")


lines_of_anything = st.lists(st.text(NO_LINE_FEED), min_size=1)


@given(lines_of_anything)
def test_only_a_line_feed_ends_a_line(tmp_path_factory, lines: list[str]):
    path = tmp_path_factory.getbasetemp() / "train.xx"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    read = list(read_lines(path))
    assert len(read) == check_file(path, path.name).lines == len(lines)
    assert all(len(line.splitlines()) <= 1 for line in read)
    tokenized = Tokenization("none").tokenizer_for("xx")(read)
    assert [line.split(" ") for line in tokenized] == [line.split() or [""] for line in read]
