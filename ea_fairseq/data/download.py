"""Get an archive: the user's own file, or else from the first place that gives it, verified."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path
from urllib.parse import urlsplit

from ea_fairseq.data.archives import Place, WrongFileError, parse_checksum, read_table, verify
from ea_fairseq.data.plan import Plan
from ea_fairseq.data.transfer import Patience, RefusedError, transfer
from ea_fairseq.errors import UserError, printable

TABLE = Path(__file__).with_name("archives.tsv")


@dataclass(frozen=True)
class Archive:
    """An archive's verified file, and the place whose size and checksum it has."""

    place: Place
    path: Path
    sha256: str


def accepted_checksums(choices: list[str], table: dict[str, list[Place]]) -> dict[str, str]:
    """The checksum of each archive that --accept names; raises UserError for a choice that is malformed or unknown."""
    accepted = {}
    for choice in choices:
        archive, equals, checksum = choice.partition("=")
        if not equals or not checksum.startswith("sha256:"):
            raise UserError(f"--accept needs NAME=sha256:CHECKSUM, not '{choice}'.")
        if archive not in table:
            raise UserError(f"--accept names the archive {archive}, and there are only: {', '.join(table)}.")
        accepted[archive] = parse_checksum(checksum)
    return accepted


def mirrored(place: Place, mirror: str) -> Place:
    """The place with its host replaced by the mirror."""
    return replace(place, address=mirror.rstrip("/") + urlsplit(place.address).path)


def own_files(folder: Path, places: list[Place]) -> Iterator[tuple[Path, Place]]:
    """The user's own files of an archive: those in the folder, or a folder in it, with the file name of a place."""
    for place in places:
        for path in [folder / place.file, *sorted(folder.glob(f"*/{escape(place.file)}"))]:
            if path.is_file():
                yield path, place


def own_file(folder: Path, places: list[Place]) -> Archive | None:
    """The user's own file of an archive.

    Returns:
        The verified archive, or None where no file has such a name.

    Raises:
        UserError: where all files of such a name have a wrong size or checksum.
    """
    wrong = None
    for path, place in own_files(folder, places):
        try:
            return Archive(place, path.resolve(), verify(path, place))
        except WrongFileError as error:
            wrong = wrong or error
    if wrong:
        raise wrong
    return None


def download(places: list[Place], folder: Path, patience: Patience) -> Archive:
    """Downloads an archive from the first place that gives it, to a .part file in the folder.

    A .part file for the same checksum is continued.

    Raises:
        UserError: where no place gives the archive, with each place's reason.
    """
    reasons = []
    for place in places:
        part = folder / f"{place.archive}.{place.checksum.partition(':')[2][:8]}.part"
        try:
            return Archive(place, part, _verified(place, part, patience))
        except RefusedError as error:
            print(printable(f"{place.address}: {error}"), flush=True)
            reasons.append(f"{place.address} ({error})")
    raise UserError(
        f"no place gives the archive {places[0].archive}: {'; '.join(reasons)}: run again later, "
        "or give a folder that holds its file with --archives, or another host with --mirror."
    )


def _verified(place: Place, part: Path, patience: Patience) -> str:
    """Transfers and verifies a file, a second time from scratch where it is wrong; returns its sha256.

    Raises:
        RefusedError: where it is wrong twice, or is not given.
    """
    for _ in range(2):
        transfer(place, part, patience)
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
        own: a folder with archives that need no download.
        mirror: a host, and folder, in place of those of the table.
        accepted: the only checksum of an archive, whatever the table says, by its name.
        table: the places of each archive, by its name.

    Raises:
        UserError: where ``mirror`` is no address.
    """

    own: Path | None = None
    mirror: str | None = None
    accepted: dict[str, str] = field(default_factory=dict)
    table: dict[str, list[Place]] = field(default_factory=partial(read_table, TABLE))

    def __post_init__(self) -> None:
        if self.mirror and not re.fullmatch("https?://[^/?#]+(/[^?#]*)?", self.mirror):
            raise UserError(f"--mirror needs an address such as https://host/folder, not '{self.mirror}'.")

    def places(self, archive: str) -> list[Place]:
        """The places of an archive, with the checksum that is accepted, if there is one."""
        accepted = self.accepted.get(archive)
        places = self.table[archive]
        return [replace(place, size=None, checksum=accepted) for place in places] if accepted else places

    def get(self, archive: str, output: Path) -> None:
        """Makes a folder of the archive and its source.json; .part files of a download lie beside it.

        Raises:
            UserError: where no place gives the archive, or the user's own file is another.
        """
        places = self.places(archive)
        own = own_file(self.own, places) if self.own else None
        if self.mirror:
            places = [mirrored(place, self.mirror) for place in places]
        found = own or download(places, output.parent, Patience.from_environment())

        source = {
            "archive": archive,
            "file": found.place.file,
            "address": found.place.address,
            "size": found.path.stat().st_size,
            "checksum": found.sha256,
            "accepted": archive in self.accepted,
        }
        output.mkdir()
        (output / "source.json").write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        if own and output.parent.resolve() in own.path.parents[1:]:  # was downloaded here, and may be replaced
            (output / own.place.file).hardlink_to(own.path)
        elif own:
            (output / own.place.file).symlink_to(own.path)
        else:
            found.path.rename(output / found.place.file)
        for part in output.parent.glob(f"{archive}.????????.part"):
            part.unlink()

    def plan(self, plan: Plan, archive: str) -> str:
        """Plans to get an archive; returns the output of that step."""
        first = self.table[archive][0]
        own = next((path for path, _ in own_files(self.own, self.table[archive])), None) if self.own else None
        return plan.add(
            f"archives/{archive}",
            partial(self.get, archive),
            self.places(archive),
            size=0 if own else first.size or 0,
            unsized="linked" if own else "unknown",
            remark=f"from {own or first.address}",
        )
