"""Runs fairseq's console commands as a user does: from a folder of his own, the plugin given by its path."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "ea_fairseq"
SIZES = ["--encoder-layers", "2", "--decoder-layers", "2"] + [
    part
    for side in ("encoder", "decoder")
    for name, size in (("embed-dim", 16), ("ffn-embed-dim", 16), ("attention-heads", 2))
    for part in (f"--{side}-{name}", str(size))
]
OFF = ["--no-encoder-conv", "--no-decoder-conv", "--no-cross-conv", "--no-encoder-skip"]


def program(name: str) -> Path:
    """A console command of this Python's environment."""
    return Path(sys.executable).with_name(name)


def run(*command, cwd: Path, stdin: str | None = None, **environment) -> subprocess.CompletedProcess:
    """Runs a console command of this Python's environment on one thread; the caller checks the result."""
    name, *arguments = map(str, command)
    return subprocess.run(
        [program(name), *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def run_well(*command, **options) -> str:
    """Runs a console command that must end well; returns what it wrote, errors included."""
    return written(run(*command, **options))


def written(result: subprocess.CompletedProcess) -> str:
    """What a command that must have ended well wrote."""
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def run_python(code: str, *arguments, cwd: Path, **options) -> subprocess.CompletedProcess:
    return run(Path(sys.executable).name, "-c", code, *arguments, cwd=cwd, **options)
