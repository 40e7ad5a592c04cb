"""Paths that fairseq takes for what they are."""

import re
from pathlib import Path

from ea_fairseq.errors import UserError

MEANING = re.compile(r":|\$\{")  # the end of one of several paths, the name of another option


def require_path(path: Path) -> Path:
    """The path; raises UserError where it has, made absolute, what means something else to fairseq."""
    if found := MEANING.search(str(path.absolute())):
        raise UserError(f"'{found[0]}' in a path has a meaning for fairseq: use another folder than {path.absolute()}.")
    return path
