"""Checks that fairseq reads a path as it is."""

import re
from pathlib import Path

from ea_fairseq.errors import UserError

MEANING = re.compile(r":|\$\{")  # ":" separates paths, "${" begins the name of another option


def require_path(path: Path) -> Path:
    """Returns the path; raises UserError if the absolute path has characters with a meaning for fairseq."""
    if found := MEANING.search(str(path.absolute())):
        raise UserError(f"'{found[0]}' in a path has a meaning for fairseq: use another folder than {path.absolute()}.")
    return path
