"""Files in a folder that others made."""

from pathlib import Path

from ea_fairseq.errors import FileError
from ea_fairseq.plain.records import MEGABYTE


def own_file(path: Path, largest: int) -> Path:
    """Returns the path; raises UserError if it is not a file, links out of its folder or has more bytes than that."""
    if not path.is_file():
        raise FileError(f"there is no {path}: copy it from where the others in its folder are from.")
    if path.resolve().parent != path.parent.resolve():
        raise FileError(f"{path} is a link out of its folder: put the file itself there.")
    if path.stat().st_size > largest:
        raise FileError(f"{path} has more than {largest // MEGABYTE} MB, which no file of its kind has: remove it.")
    return path
