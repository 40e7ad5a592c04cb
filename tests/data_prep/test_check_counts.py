"""Other counts than those of the full data are an error, or noted."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora import environment
from dataset_runs import QUICK, REPOSITORY, Archives, command
from ea_fairseq.data.manifest import check_counts
from ea_fairseq.errors import UserError
from mirror import Mirror

CLEAN = {"step": "clean", "read": 90, "dropped": {"empty": 4, "ratio": 6}, "kept": 80}
MANIFEST = {
    "splits": {
        "train": {"pairs": 80, "steps": [{"step": "tokenize", "read": 90, "dropped": {}, "kept": 90}, CLEAN]},
        "valid": {"pairs": 7, "steps": []},
        "test": {"pairs": 8, "steps": []},
    },
    "dictionary_sizes": {"de": 40, "en": 30},
}
RIGHT = {"train": 80, "valid": 7, "test": 8, "dict.de": 40, "dict.en": 30, "with_text": 86}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "some data"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder


@pytest.fixture
def note(data: Path, capsys) -> Callable[..., str]:
    """A function that compares counts, and returns what it notes."""

    def note(known: dict[str, int], others: dict[str, int] | None = None, strict: bool = False) -> str:
        check_counts(data, known, others or {}, strict)
        written = capsys.readouterr()
        assert not written.out
        return written.err

    return note


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("count", [len(RIGHT), 2, 0])
def test_right_counts_are_passed_over_in_silence(note, count: int, strict: bool):
    assert note(dict(list(RIGHT.items())[:count]), strict=strict) == ""


@pytest.mark.parametrize("name", RIGHT)
def test_every_other_count_is_named(note, data: Path, name: str):
    known = RIGHT | {name: RIGHT[name] + 1}
    differs = f"{name} {RIGHT[name]} instead of {known[name]}"
    noted = note(known)
    assert noted.startswith("note: ") and noted.endswith(f" differ: {differs}.\n")
    with pytest.raises(UserError, match=f"{data}: {differs}.$"):
        note(known, strict=True)


def test_all_other_counts_are_named_in_one_sentence(note):
    with pytest.raises(UserError, match=r": train 80 instead of 1, dict.en 30 instead of 2.$"):
        note({"train": 1, "valid": 7, "dict.en": 2}, strict=True)


def test_counts_of_others_are_noted_at_most(note):
    assert note({"train": 80}, {"with_text": 86}, strict=True) == ""
    noted = note({"train": 80}, {"with_text": 87}, strict=True)
    assert noted.startswith("note: ") and noted.endswith(" differ: with_text 86 instead of 87.\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Archives:
    return Archives(tmp_path_factory.mktemp("small") / "the archives")


@pytest.fixture
def project(small: Archives, tmp_path: Path) -> Path:
    """The scripts, with a table in which the small archive of IWSLT'14 is the right one."""
    for folder in ("data-prep", "scripts", "ea_fairseq"):
        shutil.copytree(REPOSITORY / folder, tmp_path / "a project" / folder)
    archive = small.file("iwslt14-de-en")
    table = tmp_path / "a project/ea_fairseq/data/archives.tsv"
    lines = [line.split("\t") for line in table.read_text().splitlines()]
    for line in lines:
        if line[0] == "iwslt14-de-en":
            line[1:3] = str(archive.stat().st_size), f"md5:{hashlib.md5(archive.read_bytes()).hexdigest()}"
    table.write_text("".join("\t".join(line) + "\n" for line in lines))
    return tmp_path / "a project"


def prepare(project: Path, *arguments: object) -> subprocess.CompletedProcess:
    whole = command("iwslt14-deen", *arguments, repository=project)
    return subprocess.run(whole, env=environment() | QUICK, cwd="/", capture_output=True, text=True)


@pytest.mark.slow
def test_script_refuses_full_data_of_other_counts_and_notes_those_of_a_trial(project: Path, small, tmp_path: Path):
    data = tmp_path / "an output/data-bin"
    with Mirror(small.served()) as mirror:
        full = prepare(project, "--mirror", mirror.url, data.parent)
        sources = json.loads((data / "manifest.json").read_text())["sources"]
        again = prepare(project, data.parent)
        trial = prepare(project, "--merges", "9999", data.parent)
    assert [source["accepted"] for source in sources] == [False]
    for result in (full, again):
        assert result.returncode == 1
        assert result.stderr.startswith("prepare: the counts are not those of the full data")
        assert result.stderr.count("\n") == 1
        for count in ("train 130 instead of 160239", "valid 5 instead of 7283", "test 80 instead of 6750"):
            assert count in result.stderr
    assert (trial.returncode, trial.stderr.startswith("note: ")) == (0, True)
    assert len(mirror.visits) == 1
