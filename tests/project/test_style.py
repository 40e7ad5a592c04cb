"""Python and shell sources keep the style that ruff and shellcheck ask for, and Python's types agree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IGNORED = {".venv", "build", "dist", "data", "runs"}


def tool(name: str) -> str:
    """The tool beside this Python, or else on PATH; skips the test where there is none."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


def shell_scripts() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "*.sh"], cwd=ROOT, capture_output=True, text=True, check=True)
        scripts = [ROOT / name for name in listed.stdout.splitlines()]
    except (FileNotFoundError, subprocess.CalledProcessError):  # no git, or not a checkout
        scripts = [path for path in ROOT.rglob("*.sh") if not IGNORED & set(path.relative_to(ROOT).parts)]
    return [path for path in [*scripts, ROOT / ".ci" / "run"] if path.exists()]


def assert_clean(*command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=["rules", "format"])
def test_python(check):
    assert_clean(tool("ruff"), *check, ".")


def test_types():
    """Each function says what it takes and returns, and mypy finds that calls and bodies agree with it."""
    assert_clean(tool("mypy"))


def test_shell():
    assert_clean(tool("shellcheck"), "-x", *shell_scripts())
