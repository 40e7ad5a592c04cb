"""The command line: every command says what it is for, with an example, without what takes seconds to import."""

import os
import signal
import subprocess
import sys

import pytest

from commands import ROOT
from ea_fairseq.cli import COMMANDS

OF_WEIGHTS = {"average", "import-bert", "import-t5", "release"}  # which import torch first of all
STARTED = """
import sys
from ea_fairseq.cli import main
try:
    main()
finally:
    print("imported:", *{"torch", "fairseq"} & {*sys.modules})
"""


def help_of(*command: str) -> str:
    started = [sys.executable, "-c", STARTED, *command, "--help"]
    result = subprocess.run(started, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_has_help_with_an_example_at_once(command):
    text = help_of(command)
    assert text.startswith(f"usage: ea-fairseq {command}")
    text, _, imported = text.partition("imported:")
    assert f"ea-fairseq {command}" in text.partition("\nexample:\n")[2]
    assert command in OF_WEIGHTS or not imported.strip()


def test_all_are_listed():
    text = help_of()
    assert all(f"\n  {name} " in text for name in COMMANDS)


def test_what_is_no_command_is_named():
    result = subprocess.run([sys.executable, "-m", "ea_fairseq", "trian"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("ea-fairseq: there is no command trian: ")


@pytest.mark.parametrize("command", [[], ["prepare", "iwslt14-deen", "--dry-run", "out"]], ids=str)
def test_a_reader_that_stops_reading_ends_it_without_a_word(command, tmp_path):
    reads, writes = os.pipe()
    os.close(reads)
    started = [sys.executable, "-m", "ea_fairseq", *(command or ["--help"])]
    result = subprocess.run(started, cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


def test_a_script_finds_what_is_on_the_users_python_path(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('found\\n')")
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, ROOT / "data-prep/embedded_corpus.py", "--help"]
    result = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "found\n" * 2)  # the script becomes a command of the package
