"""The environment that the scripts make, and a script that is started in a Python without the project."""

import re
import subprocess
import sys

import pytest

from commands import ROOT
from ea_fairseq import installation


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.py")), ids=lambda script: script.stem)
def test_a_python_without_the_project_is_told_in_a_sentence(script):
    started = subprocess.run([sys.executable, "-S", script, "--help"], capture_output=True, text=True)
    assert started.returncode == 1
    assert started.stderr.startswith(f"{script.stem}: this Python does not have what the project needs")
    assert started.stderr.count("\n") == 1


MAKE = """
OUT_DIR=''
source "$0/scripts/lib.sh"
source "$0/scripts/environment.sh"
make_environment "$1"
"""
PYTHON = """#!/bin/sh
case "$*" in *'-m ea_fairseq') cat '{}' ;; esac
"""


def test_making_the_environment_ends_with_the_state_of_the_native_code(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    report = tmp_path / "report"
    report.write_text(installation.report())
    python.write_text(PYTHON.format(report))
    python.chmod(0o755)
    made = subprocess.run(["bash", "-euc", MAKE, ROOT, tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"[\d:]+ native code: (avx512|avx2|plain|none).*\n", made.stdout)
