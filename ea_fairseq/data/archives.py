"""Finds, verifies and downloads archives of corpora."""

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path
from urllib.parse import urlsplit

from ea_fairseq.data.plan import Plan
from ea_fairseq.data.transfer import Patience, RefusedError, transfer
from ea_fairseq.errors import UserError, printable

TABLE = Path(__file__).with_name("archives.tsv")
SOURCE = "source.json"


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


@dataclass(frozen=True)
class Archive:
    """An archive's verified file, and the place whose size and checksum it has."""

    place: Place
    path: Path
    sha256: str


class WrongFileError(UserError):
    """A file that is not the archive; ``reason`` says why, and how to use the file anyway; ``sha256`` is the file's."""

    def __init__(self, path: Path, place: Place, expected: str, found: str, sha256: str) -> None:
        """``expected`` and ``found`` are sizes or checksums in words; ``sha256`` is the file's, for ``--accept``."""
        trust = f"run again with --accept {place.archive}={sha256} if you trust it"
        self.reason, self.sha256 = f"expected {expected}, found {found}: {trust}", sha256
        super().__init__(f"{path} is not the archive {place.archive}: {self.reason}, or fetch it anew.")


def read_table(path: Path) -> dict[str, list[Place]]:
    """Reads a table such as archives.tsv; returns the places of each archive by name, all in the table's order."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    table: dict[str, list[Place]] = {}
    for line in lines[1:]:  # the first line names the columns
        archive, size, checksum, address = line.split()
        table.setdefault(archive, []).append(Place(archive, None if size == "-" else int(size), checksum, address))
    return table


def checksum(path: Path, algorithm: str) -> str:
    """A file's checksum, such as ``sha256:...``."""
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def verify(path: Path, place: Place) -> str:
    """Checks that a file has the place's size and checksum, and returns its sha256.

    Raises:
        WrongFileError: if they differ.
    """
    size, sha256 = path.stat().st_size, checksum(path, "sha256")
    if place.size not in (None, size):
        raise WrongFileError(path, place, f"{place.size} bytes", f"{size} bytes", sha256)
    algorithm = place.checksum.partition(":")[0]
    found = sha256 if algorithm == "sha256" else checksum(path, algorithm)
    if found != place.checksum:
        raise WrongFileError(path, place, place.checksum, found, sha256)
    return sha256


def verified(folder: Path) -> tuple[Path, dict[str, object]]:
    """Verifies the file in an archive's folder against source.json; returns its path and source.json's content.

    Raises:
        WrongFileError: if size or checksum differ.
    """
    source = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
    path = folder / source["file"]
    verify(path, Place(*(source[name] for name in ("archive", "size", "checksum", "address"))))
    return path, source


def accepted_checksums(choices: list[str], table: dict[str, list[Place]]) -> dict[str, str]:
    """Returns the checksum of each archive that --accept names; raises UserError if one is malformed or unknown."""
    accepted = {}
    for choice in choices:
        archive, _, digest = choice.partition("=")
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest.lower()):
            raise UserError(f"--accept needs NAME=sha256:CHECKSUM, not '{choice}'.")
        if archive not in table:
            raise UserError(f"--accept names the archive {archive}, but the known archives are: {', '.join(table)}.")
        accepted[archive] = digest.lower()
    return accepted


def own_files(folder: Path | None, places: list[Place]) -> list[tuple[Path, Place]]:
    """Finds the user's own files of an archive, by a place's file name, in the folder or in a folder in it."""
    if folder is None:
        return []
    named = [
        (path, place)
        for place in places
        for path in (folder / place.file, *sorted(folder.glob(f"*/{escape(place.file)}")))
    ]
    return [(path, place) for path, place in named if path.is_file()]


def own_file(folder: Path | None, places: list[Place], known: Collection[str]) -> Archive | None:
    """Returns the user's own file of an archive, verified, or None if no file has a place's file name.

    Args:
        known: checksums of all archives: files of other archives are passed over, also those of the same name.

    Raises:
        UserError: if all files with such a name have a wrong size or checksum.
    """
    wrong = []
    for path, place in own_files(folder, places):
        try:
            return Archive(place, path.resolve(), verify(path, place))
        except WrongFileError as error:
            if error.sha256 not in known:
                wrong.append(error)
    if wrong:
        raise wrong[0]
    return None


def download(places: list[Place], folder: Path, patience: Patience) -> Archive:
    """Downloads an archive from the first place that provides it, to a .part file in the folder.

    A .part file for the same checksum is continued.

    Raises:
        UserError: if no place provides the archive, with each place's reason.
    """
    reasons = []
    for place in places:
        part = folder / f"{place.archive}.{place.checksum.partition(':')[2][:8]}.part"
        try:
            return Archive(place, part, download_verified(place, part, patience))
        except RefusedError as error:
            print(printable(f"{place.address}: {error}"), flush=True)
            reasons.append(f"{place.address} ({error})")
    raise UserError(
        f"no place gives the archive {places[0].archive}: {'; '.join(reasons)}: run again later, "
        "or give a folder that holds its file with --archives, or another host with --mirror."
    )


def download_verified(place: Place, part: Path, patience: Patience) -> str:
    """Downloads and verifies a file, a second time from scratch if it is wrong; returns its sha256.

    Raises:
        RefusedError: if it is wrong twice, or cannot be downloaded.
    """
    for _ in range(2):
        transfer(place.address, place.size, part, patience)
        try:
            return verify(part, place)
        except WrongFileError as error:
            part.unlink()
            reason = error.reason
    raise RefusedError(reason)


@dataclass(frozen=True)
class Sources:
    """Where archives come from.

    Args:
        table: the places of each archive, by its name.
        own: a folder with archives that need no download.
        mirror: a host, optionally with a folder, to use instead of the table's hosts.
        accepted: checksums by archive name, which replace those of the table.
    """

    table: dict[str, list[Place]]
    own: Path | None = None
    mirror: str | None = None
    accepted: dict[str, str] = field(default_factory=dict)

    def places(self, archive: str) -> list[Place]:
        """Returns the places of an archive, with the accepted checksum if there is one."""
        accepted = self.accepted.get(archive)
        places = self.table[archive]
        return [replace(place, size=None, checksum=accepted) for place in places] if accepted else places

    def served(self, place: Place) -> Place:
        """Returns the place, on the mirror if there is one."""
        if not self.mirror:
            return place
        return replace(place, address=self.mirror.rstrip("/") + urlsplit(place.address).path)

    def get(self, archive: str, output: Path) -> None:
        """Makes a folder with the archive and source.json; a download's .part files are next to this folder.

        Raises:
            UserError: if no place provides the archive, or the user's own file is a different one.
        """
        places = self.places(archive)
        own = own_file(self.own, places, {place.checksum for places in self.table.values() for place in places})
        found = own or download([*map(self.served, places)], output.parent, Patience.from_environment())
        source = {
            "archive": archive,
            "file": found.place.file,
            "address": found.place.address,
            "size": found.path.stat().st_size,
            "checksum": found.sha256,
            "accepted": archive in self.accepted,
        }
        output.mkdir()
        (output / SOURCE).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        file = output / found.place.file
        if not own:
            found.path.rename(file)
        elif output.parent.resolve() in own.path.parents[1:]:  # it was downloaded here, and may be replaced
            file.hardlink_to(own.path)
        else:
            file.symlink_to(own.path)
        for part in output.parent.glob(f"{archive}.????????.part"):
            part.unlink()

    def plan(self, plan: Plan, archive: str) -> str:
        """Plans to get an archive; returns the output of that step."""
        first = self.table[archive][0]
        named = own_files(self.own, self.places(archive))
        own = next((path for path, place in named if place.size in (None, path.stat().st_size)), None)
        return plan.add(
            f"archives/{archive}",
            partial(self.get, archive),
            self.places(archive),
            size=0 if own else first.size or 0,
            unsized="linked" if own else "unknown",
            remark=f"from {own or self.served(first).address}",
        )
