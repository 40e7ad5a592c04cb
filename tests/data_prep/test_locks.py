"""Two runs of one folder are kept apart, and a killed one holds up nobody."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from corpora import LOWERCASED, SCRIPT, checksums, warm_environment, write_corpus
from projects import finish, kill_group, make_project, start, wait_until, words

RECIPE = "toy/ea_transformer_lite"
WAITING = "waiting for another run in {} to end"


def train(project: Path, out: Path, **variables: str) -> subprocess.Popen:
    return start(project, "train.sh", "--out", out, RECIPE, **variables)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return make_project(tmp_path_factory.mktemp("a home") / "a project")


def test_a_second_training_in_a_folder_waits_for_the_first(project, tmp_path):
    first = train(project, tmp_path, PAUSE="0.4")
    wait_until(lambda: words(tmp_path, "starts"))
    os.killpg(first.pid, signal.SIGSTOP)  # else it might end before the second has started
    second = train(project, tmp_path)
    waiting = second.stdout.readline()
    os.killpg(first.pid, signal.SIGCONT)
    status, output, errors = finish(second)
    assert status == 0 and WAITING.format(tmp_path) in waiting and "nothing to do" in output, errors
    assert finish(first)[0] == 0
    assert len(words(tmp_path, "starts")) == 1


def test_a_killed_training_holds_up_nobody_and_one_that_waits_is_stopped_quietly(project, tmp_path):
    first = train(project, tmp_path, PAUSE="1000")
    wait_until(lambda: words(tmp_path, "starts"))
    second = train(project, tmp_path)
    assert WAITING.format(tmp_path) in second.stdout.readline()
    os.killpg(second.pid, signal.SIGINT)
    _, _, errors = finish(second)
    assert second.returncode == 128 + signal.SIGINT and errors == ""
    kill_group(first)
    status, output, _ = finish(train(project, tmp_path))
    assert status == 0 and "waiting" not in output


@pytest.mark.slow
def test_two_preparations_of_a_folder_make_everything_once(tmp_path):
    corpus, out = write_corpus(tmp_path / "a corpus"), tmp_path / "out"
    command = ["bash", SCRIPT, *LOWERCASED, corpus, out]
    both = [
        subprocess.Popen(command, env=warm_environment(), cwd="/", text=True, stdout=subprocess.PIPE) for _ in range(2)
    ]
    outputs = [run.communicate(timeout=120)[0] for run in both]
    assert [run.returncode for run in both] == [0, 0]
    assert sum(WAITING.format(out) in output for output in outputs) == 1
    assert sorted(output.count("making it") > 0 for output in outputs) == [False, True]
    assert (out / "data-bin/manifest.json").is_file() and not [name for name in checksums(out) if ".tmp" in name]
