"""The environment that the scripts make, and a script that is started in a Python without the project."""

import os
import re
import subprocess
import sys
from subprocess import PIPE

import pytest

from commands import ROOT
from ea_fairseq import installation


@pytest.mark.parametrize("command", ("average", "maps", "report", "translate"))
def test_a_python_without_the_project_is_told_in_a_sentence(command):
    started = [sys.executable, "-S", "-m", "ea_fairseq", command, "--help"]
    result = subprocess.run(started, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith(f"{command}: this Python has no ")
    assert result.stderr.count("\n") == 1


MAKE = """

source "$0/scripts/lib.sh"
source "$0/scripts/environment.sh"
make_environment "$1"
"""
ENTER = """

source "$0/scripts/lib.sh"
source "$0/scripts/environment.sh"
repository=$1
enter_environment
"""
PYTHON = """#!/bin/sh
echo "$*" >>'{folder}/calls'
case "$*" in
*'-m ea_fairseq') cat '{folder}/report' ;;
*version_info*) echo 3.0 ;;
*'{failing}'*) echo 'ERROR: pip cannot.' && exit 1 ;;
esac
"""
NOTHING = "there is no such call"


def make_environment(folder, failing=NOTHING, gpu=False, script=MAKE, **environment) -> subprocess.CompletedProcess:
    """Makes an environment with a Python that only notes how it is called."""
    making = start_environment(folder, failing, gpu, script, **environment)
    stdout, stderr = making.communicate()
    return subprocess.CompletedProcess(making.args, making.returncode, stdout, stderr)


def start_environment(folder, failing=NOTHING, gpu=False, script=MAKE, **environment) -> subprocess.Popen:
    """Starts to make it."""
    for path, text in {
        "bin/python": PYTHON.format(folder=folder, failing=failing),
        "path/nvidia-smi": f"#!/bin/sh\nexit {0 if gpu else 1}\n",
        "report": installation.report(),
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        if not (folder / path).exists() or (folder / path).read_text() != text:  # another may be running it
            (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'path'}:{os.environ['PATH']}", **environment}
    command = ["bash", "-euc", script, ROOT, folder]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=PIPE, stderr=PIPE, text=True)


def installations(folder) -> list[str]:
    return [call for call in (folder / "calls").read_text().splitlines() if " install " in call]


def test_making_the_environment_ends_with_the_state_of_the_native_code(tmp_path):
    made = make_environment(tmp_path)
    assert made.returncode == 0, made.stderr
    assert re.search(r" native code: \w+, compiled with ", made.stdout.splitlines()[-1])


def test_without_a_gpu_torch_without_cuda_comes_first(tmp_path):
    made = make_environment(tmp_path)
    pip, torch, everything = installations(tmp_path)
    assert "pip==" in pip
    assert torch.endswith(" torch") and "--index-url https://download.pytorch.org/whl/cpu" in torch
    assert "--editable" in everything and "--index-url" not in everything
    assert "CUDA" not in made.stdout


def test_where_pip_finds_none_the_size_of_the_other_is_told_before_it_comes(tmp_path):
    made = make_environment(tmp_path, failing="--index-url")
    assert made.returncode == 0
    assert "1.5 GB to download" in made.stdout
    assert "--editable" in installations(tmp_path)[-1]


def test_with_a_gpu_torch_comes_with_cuda(tmp_path):
    assert "CUDA" not in make_environment(tmp_path, gpu=True).stdout
    assert not any("--index-url" in call for call in installations(tmp_path))


def test_an_installation_that_fails_shows_the_end_of_pips_output_and_what_to_do(tmp_path):
    made = make_environment(tmp_path, failing="--editable")
    assert made.returncode == 1
    assert made.stderr.splitlines()[0] == "ERROR: pip cannot."
    assert str(tmp_path / "pip.log") in made.stderr and made.stderr.count("\n") == 2
    assert not (tmp_path / "complete").exists()


def make_sources(folder) -> None:
    """What the environment in a folder is made of."""
    (folder / ".venv").symlink_to(folder)
    for name in ("setup.py", "pyproject.toml"):
        (folder / name).touch()
    (folder / "constraints.txt").write_text("pip==1\n")
    (folder / "ea_fairseq/kernels/cpu").mkdir(parents=True)
    (folder / "ea_fairseq/kernels/cpu/code.c").touch()


def test_of_two_first_runs_at_once_one_makes_the_environment_and_the_other_waits(tmp_path):
    make_sources(tmp_path)
    runs = [start_environment(tmp_path, script=ENTER) for _ in range(2)]
    shown = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert len(installations(tmp_path)) == 3 and sorted("making the Python" in text for text in shown) == [False, True]


def test_an_environment_whose_python_became_another_is_made_anew(tmp_path):
    make_sources(tmp_path)
    for failing, made in ((NOTHING, True), (NOTHING, False), ("find_spec", True)):
        (tmp_path / "calls").write_text("")
        entered = make_environment(tmp_path, script=ENTER, failing=failing)
        assert entered.returncode == 0 and bool(installations(tmp_path)) == made, entered.stderr


HEADS = ("#!{}", '#!/bin/sh\n\'\'\'exec\' "{}3.11" "$0" "$@"')  # as pip writes them, of a path with spaces the second


@pytest.mark.parametrize("enter", ["enter_environment", "find_programs"])
@pytest.mark.parametrize("head", HEADS, ids=["plain", "with spaces"])
@pytest.mark.parametrize("moved", [True, False])
def test_an_environment_that_was_moved_is_made_anew(tmp_path, enter, head, moved):
    make_sources(tmp_path)
    make_environment(tmp_path, script=ENTER)
    for name in ("python", "python3"):  # none that is active has fairseq
        (tmp_path / "path" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "path" / name).chmod(0o755)
    place = "/an old place/.venv" if moved else tmp_path / ".venv"
    (tmp_path / "bin/pip").write_text(head.format(f"{place}/bin/python"))
    script = ENTER.replace("enter_environment", enter)
    entered = make_environment(tmp_path, script=script, PYTHON=str(tmp_path / "bin/python"))
    assert entered.returncode == 0, entered.stderr
    assert ("anew, because it was made in another folder: some minutes" in entered.stdout) == moved
    assert ("-m venv --clear" in (tmp_path / "calls").read_text()) == moved


@pytest.mark.parametrize("state", ["begun", "complete"])
def test_another_python_is_not_put_into_an_environment_that_is_there(tmp_path, state):
    make_sources(tmp_path)
    if state == "complete":
        made = make_environment(tmp_path, script=ENTER)
        assert made.returncode == 0 and (tmp_path / "complete").exists(), made.stderr
    (tmp_path / "calls").write_text("")
    made = make_environment(tmp_path, script=ENTER, PYTHON=sys.executable)
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "has Python 3.0," in made.stderr
    assert not installations(tmp_path)


def test_a_clone_of_fairseq_in_the_current_folder_is_not_fairseq_installed(tmp_path):
    (tmp_path / "fairseq").mkdir()
    for name in ("python", "python3"):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        (tmp_path / name).chmod(0o755)
    find = 'source "$0/scripts/lib.sh"; find_python; echo "$python"'
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": ""}
    found = subprocess.run(["bash", "-euc", find, ROOT], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert str(tmp_path) not in found.stdout
    assert found.returncode == 0 or "no active Python has fairseq" in found.stderr


def test_a_python_that_is_too_new_is_refused_with_a_sentence_that_names_those_that_work(tmp_path):
    newest = tmp_path / "python3.15"
    newest.write_text("#!/bin/sh\nexit 1\n")
    newest.chmod(0o755)
    made = make_environment(tmp_path, PYTHON=str(newest))
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "Python 3.11 to 3.14" in made.stderr and str(newest) in made.stderr
