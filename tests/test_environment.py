"""Where a script is started in a Python that does not have the project."""

import subprocess
import sys

import pytest

from commands import ROOT


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.py")), ids=lambda script: script.stem)
def test_a_python_without_the_project_is_told_in_a_sentence(script):
    started = subprocess.run([sys.executable, "-S", script, "--help"], capture_output=True, text=True)
    assert started.returncode == 1
    assert started.stderr.startswith(f"{script.stem}: this Python does not have what the project needs")
    assert started.stderr.count("\n") == 1
