"""Archives of corpora: where they are, and whether a file is what it should be."""

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import read_lines

COLUMNS = ["archive", "size", "checksum", "address"]
DIGITS = {"sha256": 64, "md5": 32}
CHUNK = 1 << 20


@dataclass(frozen=True)
class Place:
    """An address of an archive, with the checksum and size in bytes (None: unknown) of the file there."""

    archive: str
    size: int | None
    checksum: str
    address: str

    @property
    def file(self) -> str:
        """The name of the archive's file at this place."""
        return self.address.rpartition("/")[2]


class WrongFileError(UserError):
    """A file that is not the archive; `reason` says why, and how to use it nevertheless."""

    def __init__(self, path: Path, place: Place, expected: str, found: str, sha256: str) -> None:
        """``expected`` and ``found`` are sizes or checksums in words; ``sha256`` is the file's, to accept it by."""
        trust = f"run again with --accept {place.archive}={sha256} if you trust it"
        self.reason = f"expected {expected}, found {found}: {trust}"
        super().__init__(f"{path} is not the archive {place.archive}: {self.reason}, or fetch it anew.")


def parse_checksum(text: str) -> str:
    """A checksum such as md5:0cc1... in lower case; raises UserError where the text is none."""
    algorithm, _, digest = text.lower().partition(":")
    if len(digest) != DIGITS.get(algorithm) or not re.fullmatch("[0-9a-f]+", digest):
        raise UserError(f"'{text}' is not a checksum: it must be sha256: and 64, or md5: and 32 hexadecimal digits.")
    return f"{algorithm}:{digest}"


def parse_place(line: str) -> Place:
    """Parses a line of the table; raises UserError saying which column is wrong."""
    fields = line.split()
    if len(fields) != len(COLUMNS):
        raise UserError("it must have an archive, a size, a checksum and an address.")
    archive, size, checksum, address = fields
    if not re.fullmatch(r"\w[\w.-]*", archive):
        raise UserError(f"'{archive}' is no name for an archive: use letters, digits and . _ - only.")
    if not re.fullmatch("-|[1-9][0-9]{0,17}", size):
        raise UserError(f"'{size}' is not a size: it must be a number of bytes, or - if it is not known.")
    shown = address.isascii() and address.isprintable()
    if not (shown and re.fullmatch(r"https?://[^/?#]+/[^?#]*[^/.?#]", address)):
        raise UserError(f"'{address}' is not an address such as https://host/folder/file.")
    return Place(archive, None if size == "-" else int(size), parse_checksum(checksum), address)


def read_table(path: Path) -> dict[str, list[Place]]:
    """Reads a table such as archives.tsv: the places of each archive, by its name, both in the table's order.

    Raises:
        UserError: naming the line that is wrong.
    """
    try:
        lines = [(number, line) for number, line in enumerate(read_lines(path), 1) if line and line[0] != "#"]
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8: convert it with iconv.") from None
    if not lines or lines[0][1].split() != COLUMNS:
        raise UserError(f"{path} must begin with the names of its columns: {' '.join(COLUMNS)}.")
    table: dict[str, list[Place]] = {}
    for number, line in lines[1:]:
        try:
            place = parse_place(line)
        except UserError as error:
            raise UserError(f"line {number} of {path} is wrong: {error}") from None
        table.setdefault(place.archive, []).append(place)
    return table


def verify(path: Path, place: Place) -> str:
    """Checks that a file has the place's size and checksum, and returns its sha256.

    Raises:
        WrongFileError: where it has not.
    """
    size = path.stat().st_size
    algorithm = place.checksum.partition(":")[0]
    digests = _digests(path, {algorithm, "sha256"})
    sha256 = digests["sha256"]
    if place.size not in (None, size):
        raise WrongFileError(path, place, f"{place.size} bytes", f"{size} bytes", sha256)
    if digests[algorithm] != place.checksum:
        raise WrongFileError(path, place, place.checksum, digests[algorithm], sha256)
    return sha256


def byte_bar(label: str, total: int | None, done: int = 0) -> tqdm:
    """A progress bar on stdout that counts bytes; it shows after two seconds."""
    bar = {"unit": "B", "unit_scale": True, "delay": 2, "leave": False, "file": sys.stdout}
    return tqdm(desc=label, total=total, initial=done, **bar)


def _digests(path: Path, algorithms: set[str]) -> dict[str, str]:
    """Checksums of a file, such as ``sha256:...``, by algorithm, in one pass."""
    hashes = {algorithm: hashlib.new(algorithm) for algorithm in algorithms}
    with path.open("rb") as file, byte_bar(f"verifying {path.name}", path.stat().st_size) as bar:
        while chunk := file.read(CHUNK):
            for digest in hashes.values():
                digest.update(chunk)
            bar.update(len(chunk))
    return {algorithm: f"{algorithm}:{digest.hexdigest()}" for algorithm, digest in hashes.items()}
