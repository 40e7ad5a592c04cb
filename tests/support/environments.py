"""Environments of Python that have all that ours has, but some programs of their own."""

import os
import sys
from pathlib import Path


def make_environment(folder: Path, programs: dict[str, str]) -> Path:
    """Makes an environment in a folder, with programs whose text is given; returns the folder of its programs."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    home = Path(os.path.realpath(sys.executable)).parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (folder / "bin/python").symlink_to(os.path.realpath(sys.executable))
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return folder / "bin"
