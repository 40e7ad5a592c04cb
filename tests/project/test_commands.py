"""The command line: every command says what it is for, with an example, without what takes seconds to import."""

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
