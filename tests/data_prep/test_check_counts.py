"""ea_fairseq/data/check_counts.py: other counts than those of the full data are an error, or noted."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataset_runs import REPOSITORY, Archives, prepare
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
RIGHT = ["train=80", "valid=7", "test=8", "dict.de=40", "dict.en=30", "with_text=86"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "some data"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder


def check(data: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ea_fairseq.data.check_counts", data / "manifest.json", *arguments]
    return subprocess.run(command, cwd="/", capture_output=True, text=True)


@pytest.mark.parametrize("strict", [[], ["--strict"]])
@pytest.mark.parametrize("known", [RIGHT, RIGHT[:2], []])
def test_right_counts_are_passed_over_in_silence(data: Path, known: list[str], strict: list[str]):
    result = check(data, *known, *strict)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("right", RIGHT)
def test_every_other_count_is_named(data: Path, right: str):
    name, count = right.split("=")
    differs = f"{name} {count} instead of {int(count) + 1}"
    known = [f"{name}={int(count) + 1}" if choice == right else choice for choice in RIGHT]
    noted, refused = check(data, *known), check(data, *known, "--strict")
    assert (noted.returncode, refused.returncode) == (0, 1)
    assert noted.stderr.startswith("note: ") and noted.stderr.endswith(f" differ: {differs}.\n")
    assert refused.stderr.startswith("check_counts: ") and refused.stderr.endswith(f"{data}: {differs}.\n")


def test_all_other_counts_are_named_in_one_sentence(data: Path):
    result = check(data, "train=1", "valid=7", "dict.en=2", "--strict")
    assert result.stderr.endswith(": train 80 instead of 1, dict.en 30 instead of 2.\n")
    assert result.stderr.count("\n") == 1


def test_counts_of_others_are_noted_at_most(data: Path):
    result = check(data, "train=80", "with_text~86", "--strict")
    assert (result.returncode, result.stderr) == (0, "")
    result = check(data, "train=80", "with_text~87", "--strict")
    assert result.returncode == 0
    assert result.stderr.startswith("note: ") and result.stderr.endswith(" differ: with_text 86 instead of 87.\n")


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


@pytest.mark.slow
def test_script_refuses_full_data_of_other_counts_and_notes_those_of_a_trial(project: Path, small, tmp_path: Path):
    data = tmp_path / "an output/data-bin"
    with Mirror(small.served()) as mirror:
        full = prepare("iwslt14-deen", "--mirror", mirror.url, data.parent, repository=project)
        sources = json.loads((data / "manifest.json").read_text())["sources"]
        again = prepare("iwslt14-deen", data.parent, repository=project)
        trial = prepare("iwslt14-deen", "--merges", "9999", data.parent, repository=project)
    assert [source["accepted"] for source in sources] == [False]
    for result in (full, again):
        assert result.returncode == 1
        assert result.stderr.startswith("check_counts: the counts are not those of the full data")
        assert result.stderr.count("\n") == 1
        for count in ("train 130 instead of 160239", "valid 5 instead of 7283", "test 80 instead of 6750"):
            assert count in result.stderr
    assert (trial.returncode, trial.stderr.startswith("note: ")) == (0, True)
    assert len(mirror.visits) == 1
