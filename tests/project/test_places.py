"""Scripts do the same wherever they are called from, and refuse folders that fairseq would take for others."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from commands import ROOT
from corpora import LOWERCASED, warm_environment, write_corpus
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs import release
from projects import make_project

SCRIPTS = [
    path.relative_to(ROOT)
    for folder in ("scripts", "data-prep")
    for path in sorted((ROOT / folder).glob("*.sh"))
    if path.read_text().startswith("#!")
]
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=str)


@pytest.fixture(scope="module")
def decoys(tmp_path_factory) -> Path:
    """A folder that has a folder of each name that the tests go to."""
    folder = tmp_path_factory.mktemp("decoys")
    for name in ("scripts", "data-prep", "a corpus", "data/toy/data-bin", ".ci"):
        (folder / name).mkdir(parents=True)
    return folder


def run(*command: object, cwd: Path, cdpath: str, path: Path | None = None) -> str:
    """The output of a command that must end well."""
    environment = warm_environment() | {"CDPATH": cdpath, "PYTHONSAFEPATH": "1"}
    if path:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    result = subprocess.run(["bash", *map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@each_script
def test_help_needs_no_folder_and_heeds_no_cdpath(decoys, script):
    usage = run(ROOT / script, "--help", cwd=decoys, cdpath="")
    assert run(script, "--help", cwd=ROOT, cdpath=str(decoys)) == usage
    assert run(script.name, "--help", cwd=ROOT / script.parent, cdpath=".:..") == usage


def test_relative_folders_are_those_of_the_current_folder(decoys, tmp_path):
    cdpath = str(decoys)
    write_corpus(tmp_path / "a corpus")
    run(ROOT / "data-prep/prepare-corpus.sh", *LOWERCASED, "a corpus", "out", cwd=tmp_path, cdpath=cdpath)
    assert (tmp_path / "out/corpus/train/text.de").readlink() == tmp_path / "a corpus/train.de"

    project = make_project(tmp_path / "a project")
    command = ["scripts/train.sh", "--data", "data/toy/data-bin", "--out", "run", "toy/transformer_lite"]
    run(*command, cwd=project, cdpath=cdpath, path=project / "bin")
    assert str(project / "data/toy/data-bin") in (project / "run/run.json").read_text()
    assert (project / "run/updates").read_text().split() == ["1", "2", "3"]


def test_continuous_integration_tests_its_own_clone(decoys, tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "scripts/test.sh").write_text('echo "$0 $*"\n')
    assert run(".ci/run", cwd=tmp_path, cdpath=str(decoys)).split()[0].endswith("scripts/test.sh")


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Path:
    """A folder whose name fairseq would take for two, with a project, data and a corpus in it."""
    odd = tmp_path_factory.mktemp("odd") / "a:b"
    make_project(odd.parent / "a project")
    make_project(odd / "a project")
    (odd / "data-bin").mkdir()
    write_corpus(odd.parent / "corpus")
    write_corpus(odd.parent / "a${c}")
    (odd.parent / "a project/checkpoint_best.pt").touch()
    (odd / "model").mkdir()
    for name in ("checkpoint_best.pt", "dict.de.txt"):
        (odd / "model" / name).touch()
    return odd


RECIPE = "toy/transformer_lite"
IN_ODD_FOLDERS = {
    "check_gpu.sh": ["--device", "cpu", "--out", "a:b/out"],
    "make-shortlist.sh": ["a:b/data-bin", "shortlist.tsv"],
    "prepare-cifar10.sh": ["--images", "corpus", "a:b/out"],
    "prepare-corpus.sh": ["--source-lang", "de", "--target-lang", "en", "--dry-run", "corpus", "a:b/out"],
    "prepare-digits.sh": ["--dry-run", "a:b/out"],
    "prepare-glue.sh": ["--task", "cola", "--dry-run", "a:b/out"],
    "prepare-iwslt14-deen.sh": ["--dry-run", "a:b/out"],
    "prepare-masked-lm.sh": ["--language", "en", "corpus", "a:b/out"],
    "prepare-multi30k.sh": ["--dry-run", "a:b/out"],
    "prepare-planetoid.sh": ["--graphs", "corpus", "cora", "a:b/out"],
    "prepare-rationales.sh": ["--documents", "corpus", "a:b/out"],
    "prepare-sst5.sh": ["--dry-run", "a:b/out"],
    "prepare-text.sh": ["--dry-run", "corpus", "a:b/out"],
    "prepare-uea.sh": ["--dry-run", "JapaneseVowels", "a:b/out"],
    "prepare-wmt14-ende.sh": ["--dry-run", "a:b/out"],
    "prepare-wmt14-enfr.sh": ["--dry-run", "a:b/out"],
    "train.sh --data": ["--data", "a:b/data-bin", RECIPE],
    "train.sh --out": ["--out", "a:b/out", RECIPE],
    "evaluate.sh data": ["a:b/data-bin", "a project"],
    "evaluate.sh --out": ["--out", "a:b/out", "a project", "a project"],
    "sweep.sh --out": [RECIPE, "--out", "a:b/out", "--try", "--lr", "1"],
    "sweep.sh --data": [RECIPE, "--data", "a:b/data-bin", "--try", "--lr", "1"],
    "ablation.sh --out": ["--recipe", "toy/ea_transformer_lite", "--out", "a:b/out", "corpus"],
    "ablation.sh data": ["--recipe", "toy/ea_transformer_lite", "a:b/data-bin"],
    "quickstart.sh --out": ["--out", "a:b/out"],
    "quickstart.sh --corpus": ["--corpus", "a${c}", "--out", "out"],
    "demo.sh": ["--port", "0", "a:b/model"],
    "translate.sh --data": ["--data", "a:b/data-bin", "a project"],
}


def assert_refused(script: Path, *arguments: str, cwd: Path, place: str):
    """The script refuses a place in one sentence that names it, and makes nothing."""
    before = files_in(cwd)
    command, env = ["bash", script, *arguments], warm_environment()
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
    assert "has a meaning for fairseq" in result.stderr and place in result.stderr
    assert files_in(cwd) == before


def files_in(folder: Path) -> set[Path]:
    """Files and folders at any depth, without what Python compiles."""
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("case", IN_ODD_FOLDERS)
def test_a_folder_that_fairseq_would_take_for_others_is_refused_at_once(odd, case):
    script, arguments = case.split()[0], IN_ODD_FOLDERS[case]
    (place,) = [word for word in arguments if ":" in word or "$" in word]
    root = odd.parent / "a project" if script in ("train.sh", "sweep.sh", "ablation.sh") else ROOT
    (path,) = (root / found for found in SCRIPTS if found.name == script)
    assert_refused(path, *arguments, cwd=odd.parent, place=place if "$" in place else f"{odd.parent}/{place}")


def test_every_script_with_a_folder_refuses_such_a_one():
    without_fairseq = {"site.sh", "test.sh", "wheels.sh"}
    assert {case.split()[0] for case in IN_ODD_FOLDERS} == {script.name for script in SCRIPTS} - without_fairseq


def test_a_relative_folder_counts_from_where_it_is(odd):
    assert_refused(ROOT / "data-prep/prepare-iwslt14-deen.sh", "--dry-run", "out", cwd=odd, place=f"{odd}/out")
    assert_refused(odd / "a project/scripts/train.sh", RECIPE, cwd=odd.parent, place=f"{odd}/a project")


def test_no_model_is_released_into_such_a_folder(odd, monkeypatch):
    monkeypatch.setattr("sys.argv", ["release.py", "--about", str(ROOT / "README.md"), "a run", str(odd / "model")])
    with pytest.raises(UserError, match=f"has a meaning for fairseq: .* {odd}/model"):
        release.main()
