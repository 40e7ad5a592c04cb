"""Where the project's data sets, runs and documents lie."""

import shlex
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def project_folder() -> Path:
    """The checkout that the package lies in; the working folder where it was installed by a wheel."""
    return PACKAGE.parent if (PACKAGE.parent / "setup.py").is_file() else Path.cwd()


PROJECT = project_folder()


def portable(command: str, project: Path | None = None) -> str:
    """A command to type in this project's folder, its paths there, or in the one where ``project`` was, relative."""
    words = shlex.split(command)
    for folder in filter(None, (PROJECT, project)):
        words = [word.removeprefix(f"{folder}/") for word in words]
    return shlex.join(words)
