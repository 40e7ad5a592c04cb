"""Where the project's data sets, runs and documents lie."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def project_folder() -> Path:
    """The checkout that the package lies in; the working folder where it was installed by a wheel."""
    return PACKAGE.parent if (PACKAGE.parent / "setup.py").is_file() else Path.cwd()


PROJECT = project_folder()
