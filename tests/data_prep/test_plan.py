"""What a preparation plans: it makes what is needed and not there, and says so beforehand."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import dataset_runs
from corpora import LOWERCASED, prepare, prepared, write_corpus
from ea_fairseq.data import plan
from ea_fairseq.data.prepare import data_set
from ea_fairseq.errors import UserError
from ea_fairseq.plain.output_folder import OutputFolder

SAVING = ["--compress", "--remove-intermediate"]


def data_files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "data-bin").iterdir()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("given") / "a corpus")


@pytest.fixture(scope="module")
def full(corpus: Path, tmp_path_factory) -> Path:
    """A preparation that keeps all text."""
    out = tmp_path_factory.mktemp("full") / "an out"
    prepared(*LOWERCASED, corpus, out)
    return out


def test_dry_run_shows_the_steps_and_writes_nothing(corpus: Path, tmp_path: Path):
    result = prepare(*LOWERCASED, "--dry-run", corpus, tmp_path / "a new/out")
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.iterdir())
    for step in ("tokenized/train", "cleaned/train", "bpe.codes", "subword/test", "data-bin", "disk: about"):
        assert step in result.stdout


@pytest.mark.parametrize(
    ("data_set", "shown"),
    [
        (
            "wmt14-ende",
            {"archives/europarl-v7": "657.7MB", "archives/test-full": "unknown", "extracted/valid": "small"},
        ),
        ("sst5", {"tokenized/valid": "small", "data-bin": "758.4KB"}),
    ],
)
def test_a_dry_run_shows_no_size_that_is_not_true(tmp_path: Path, data_set, shown):
    lines = dataset_runs.prepare(data_set, "--dry-run", tmp_path / "out").stdout.splitlines()
    sizes = dict(line.split()[:2] for line in lines if line.startswith("  "))
    assert {name: sizes[name].upper() for name in shown} == {name: size.upper() for name, size in shown.items()}
    assert "0.0B" not in sizes.values()


def test_dry_run_tells_what_is_left_to_do(corpus: Path, full: Path):
    before = data_files(full)
    result = prepare(*LOWERCASED, "--dry-run", "--max-length", "6", corpus, full)
    todo = [line.split()[0] for line in result.stdout.splitlines() if line.endswith("  in place of other")]
    assert todo == ["cleaned/train", "bpe.codes", "subword/train", "subword/valid", "subword/test", "data-bin"]
    assert data_files(full) == before


@pytest.mark.slow
def test_removed_text_changes_nothing_and_is_not_missed(corpus: Path, full: Path, tmp_path: Path):
    out = tmp_path / "an out"
    prepared(*LOWERCASED, *SAVING, corpus, out)
    assert data_files(out) == data_files(full)
    assert {path.name for path in out.iterdir()} == {".stages", "bpe.codes", "corpus", "data-bin", "logs"}
    assert "data-bin: already made" in prepare(*LOWERCASED, *SAVING, corpus, out).stdout
    prepared(*LOWERCASED, *SAVING, "--max-length", "6", corpus, out)
    again = shutil.copytree(full, tmp_path / "again")
    prepared(*LOWERCASED, "--max-length", "6", corpus, again)
    assert data_files(out) == data_files(again) != data_files(full)


def test_text_between_the_steps_is_removed_later_on_demand(corpus: Path, full: Path, tmp_path: Path):
    out = shutil.copytree(full, tmp_path / "a copy", symlinks=True)
    prepared(*LOWERCASED, "--remove-intermediate", corpus, out)
    assert {path.name for path in out.iterdir()} == {".stages", "bpe.codes", "corpus", "data-bin", "logs"}
    assert data_files(out) == data_files(full)


def test_same_text_elsewhere_is_the_same_and_other_text_is_not(corpus: Path, full: Path, tmp_path: Path):
    moved, out = shutil.copytree(corpus, tmp_path / "moved"), shutil.copytree(full, tmp_path / "out", symlinks=True)
    result = prepare(*LOWERCASED, moved, out)
    assert "data-bin: already made" in result.stdout
    train = moved / "train.de"
    train.write_text(train.read_text().replace("Hund", "Kater"))
    prepared(*LOWERCASED, moved, out)
    assert "kater" in (out / "tokenized/train/text.de").read_text()
    assert (out / "tokenized/valid/text.de").stat().st_mtime_ns == (full / "tokenized/valid/text.de").stat().st_mtime_ns


def test_a_sample_of_the_training_pairs(corpus: Path, tmp_path: Path):
    out = tmp_path / "out"
    prepared(*LOWERCASED, "--subsample", "20", "--seed", "3", corpus, out)
    manifest = json.loads((out / "data-bin/manifest.json").read_text())
    assert manifest["settings"]["subsample"] == 20
    tokenized = manifest["splits"]["train"]["steps"][1]
    assert (tokenized["read"], tokenized["dropped"], tokenized["kept"]) == (40, {"not sampled": 20}, 20)
    assert [manifest["splits"][split]["pairs"] for split in ("valid", "test")] == [6, 5]


@pytest.mark.parametrize(
    ("note", "name", "part", "is_refused"),
    [
        ("prepare-glue rte", "glue", "rte", False),
        ("prepare-glue rte", "glue", "cola", True),
        ("prepare-glue rte", "corpus", "", True),
        ("prepare-corpus", "corpus", "", False),
    ],
)
@pytest.mark.parametrize("has_output", [True, False])
def test_another_preparations_folder_is_refused(tmp_path: Path, note, name, part, is_refused, has_output):
    for folder in (".stages", "logs", "archives"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".stages/made-by").write_text(f"{note}\n")
    if has_output:
        (tmp_path / "archives/one.tgz").touch()
    if is_refused and has_output:
        with pytest.raises(UserError, match=f"was made by {note}: give a new folder"):
            data_set(name).output_folder(tmp_path, part)
    else:
        with data_set(name).output_folder(tmp_path, part).opened():
            assert (tmp_path / ".stages/made-by").read_text() == f"prepare-{name} {part}".rstrip() + "\n"


def test_a_folder_is_taken_in_which_another_preparation_failed_for_want_of_network(corpus: Path, tmp_path: Path):
    out = tmp_path / "an out [1]"
    failed = dataset_runs.prepare("iwslt14-deen", "--mirror", "http://localhost:1", out)
    assert "run again later" in failed.stderr and (out / ".stages/made-by").read_text() == "prepare-iwslt14-deen\n"
    prepared(*LOWERCASED, corpus, out)
    refused = dataset_runs.prepare("iwslt14-deen", out)
    assert f"{out} was made by prepare-corpus: give a new folder" in refused.stderr


def test_too_small_a_disk_is_refused_before_anything_is_made(corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(plan.shutil, "disk_usage", lambda path: SimpleNamespace(free=1024))
    chosen = data_set("corpus")
    with pytest.raises(UserError, match=r"its disk has 1.1KB free"):
        chosen.prepare(chosen.options([*LOWERCASED, str(corpus), str(tmp_path / "out")]))
    assert not (tmp_path / "out/tokenized").exists()


def test_what_an_interrupted_run_left_is_no_reason_to_refuse_the_next(tmp_path: Path, monkeypatch):
    """Unfinished outputs are removed first, and a download goes on."""
    (tmp_path / ".stages").mkdir()
    (tmp_path / "archives").mkdir()
    (tmp_path / "data-bin.tmp").mkdir()
    (tmp_path / "data-bin.tmp/train.bin").write_bytes(bytes(800))
    (tmp_path / "archives/one.0123abcd.part").write_bytes(bytes(900))

    def usage(path):
        return SimpleNamespace(free=2000 - sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))

    monkeypatch.setattr(plan.shutil, "disk_usage", usage)
    steps = plan.Plan()
    steps.add("archives/one", Path.mkdir, 1, size=1000)
    steps.add("data-bin", Path.mkdir, 1, ("archives/one",), size=800)
    with OutputFolder(tmp_path, "prepare").opened() as folder:
        steps.run(folder, remove_intermediate=False)
    assert (tmp_path / "data-bin").is_dir()


def test_a_folder_of_any_name_can_hold_the_corpus(tmp_path: Path):
    corpus = write_corpus(tmp_path / os.fsdecode(b"caf\xe9"))
    prepared(*LOWERCASED, corpus, tmp_path / "out")
    assert "data-bin: already made" in prepare(*LOWERCASED, corpus, tmp_path / "out").stdout
    shown = prepare(*LOWERCASED, "--dry-run", corpus, tmp_path / os.fsdecode(b"caf\xe9 out"))
    assert shown.returncode == 0 and "plan for" in shown.stdout
