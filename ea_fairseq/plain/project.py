"""The folder of the project's data sets, runs and documents."""

import shlex
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def project_folder() -> Path:
    """Returns the checkout of the package, or the working folder if it was installed from a wheel."""
    return PACKAGE.parent if (PACKAGE.parent / "setup.py").is_file() else Path.cwd()


PROJECT = project_folder()


def portable(command: str, project: Path | None = None) -> str:
    """Returns a command to type in this project's folder; paths there, or in ``project``, become relative."""
    words = shlex.split(command)
    for folder in filter(None, (PROJECT, project)):
        words = [word.removeprefix(f"{folder}/") for word in words]
    return shlex.join(words)
