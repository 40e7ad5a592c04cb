"""Checksums by which a training and its scores recognise a data folder."""

import hashlib
import re
from pathlib import Path

from ea_fairseq.data.manifest import MANIFEST, sha256

OF_FILES = "files:"  # before a checksum of files, for data without a manifest
READ = re.compile("dict|train|valid", re.IGNORECASE)  # in the names of files that a training reads
TESTED = re.compile("test", re.IGNORECASE)
PART = 8 << 20  # bytes to read at each end of a large file


def data_checksum(folder: Path, test: bool = False) -> str:
    """Returns the SHA-256 of a data folder's manifest or, if it has none, OF_FILES and a SHA-256 of its files.

    Args:
        test: whether to include the files of the test set.
    """
    if (folder / MANIFEST).is_file():
        return sha256(folder / MANIFEST)
    digest = hashlib.sha256()
    for path in files(folder):
        if READ.search(path.name) or (test and TESTED.search(path.name)):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size} {ends(path)}\n".encode())
    return OF_FILES + digest.hexdigest()


def dictionaries(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each dictionary in a data folder, by its name."""
    found = [path for path in files(folder) if re.fullmatch(r"dict(\..+)?\.txt", path.name)]
    return {str(path.relative_to(folder)): sha256(path) for path in found}


def files(folder: Path) -> list[Path]:
    """Returns the files of a data folder and of its subfolders, such as input0/ and label/."""
    return sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file())


def ends(path: Path) -> str:
    """Returns the SHA-256 of a file; for a large one, of its first and last bytes, as data may have many gigabytes."""
    if path.stat().st_size <= 2 * PART:
        return sha256(path)
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(PART))
        file.seek(-PART, 2)
        digest.update(file.read(PART))
    return digest.hexdigest()


def is_same(one: str | None, other: str | None) -> bool | None:
    """Whether two checksums are of the same data; None if one is missing or they are of different kinds."""
    if one is None or other is None or one.startswith(OF_FILES) != other.startswith(OF_FILES):
        return None
    return one == other
