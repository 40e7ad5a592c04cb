"""Scripts do the same wherever they are called from, and whatever CDPATH says."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from commands import ROOT
from corpora import LOWERCASED, warm_environment, write_corpus
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
    environment = warm_environment() | {"CDPATH": cdpath}
    if path:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    result = subprocess.run(["bash", *map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@each_script
def test_help_needs_no_folder_and_heeds_no_cdpath(decoys, script):
    usage = run(ROOT / script, "--help", cwd=decoys, cdpath="")
    for cdpath in (str(decoys), ".:.."):
        assert run(script, "--help", cwd=ROOT, cdpath=cdpath) == usage
        assert run(script.name, "--help", cwd=ROOT / script.parent, cdpath=cdpath) == usage


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
