"""Get an archive: the user's own file, or else from the first place that gives it, verified."""

import argparse
import json
import re
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from urllib.parse import urlsplit

from ea_fairseq.data.archives import Place, WrongFileError, parse_checksum, read_table, verify
from ea_fairseq.data.transfer import Patience, RefusedError, transfer
from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.commands import run

TABLE = Path(__file__).with_name("archives.tsv")
VARIABLES = """
DOWNLOAD_ATTEMPTS (default: 5) is how often in a row a transfer may bring less than 10 kB before the next place is
tried, DOWNLOAD_WAIT (5) the seconds before the second attempt, doubled each time, DOWNLOAD_STALL (60) those after which
a server that sends nothing, or less than 10 kB in them, is given up, and DOWNLOAD_LARGEST (10000000000) the most bytes
of an archive whose size is unknown.
"""


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


def own_file(folder: Path, places: list[Place]) -> Archive | None:
    """The user's own file of an archive: one in the folder, or a folder in it, with the file name of a place.

    Returns:
        The verified archive, or None where no file has such a name.

    Raises:
        UserError: where the folder is missing, or all files of such a name have a wrong size or checksum.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give --archives the folder that holds your archives.")
    wrong = None
    for place in places:
        for path in [folder / place.file, *sorted(folder.glob(f"*/{escape(place.file)}"))]:
            try:
                if path.is_file():
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


def main() -> None:
    """Get it."""
    parser = argparse.ArgumentParser(description=__doc__, epilog=VARIABLES)
    parser.add_argument("--table", type=Path, default=TABLE, help="where archives are (default: %(default)s)")
    parser.add_argument("--archives", type=Path, metavar="DIR", help="folder with archives that need no download")
    parser.add_argument("--mirror", metavar="URL", help="host, and folder, in place of those of the table")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="NAME=sha256:CHECKSUM",
        help="the only checksum for an archive, whatever the table says",
    )
    parser.add_argument("archive", help="name in the table")
    parser.add_argument("output", type=Path, help="folder for the archive and source.json; .part files lie beside it")
    args = parser.parse_args()

    table = read_table(args.table)
    if args.archive not in table:
        raise UserError(f"{args.table} has no archive {args.archive}: it has {', '.join(table)}.")
    if args.mirror and not re.fullmatch("https?://[^/?#]+(/[^?#]*)?", args.mirror):
        raise UserError(f"--mirror needs an address such as https://host/folder, not '{args.mirror}'.")
    places = table[args.archive]
    accepted = accepted_checksums(args.accept, table).get(args.archive)
    if accepted:
        places = [replace(place, size=None, checksum=accepted) for place in places]

    own = own_file(args.archives, places) if args.archives else None
    if args.mirror:
        places = [mirrored(place, args.mirror) for place in places]
    archive = own or download(places, args.output.parent, Patience.from_environment())

    source = {
        "archive": args.archive,
        "file": archive.place.file,
        "address": archive.place.address,
        "size": archive.path.stat().st_size,
        "checksum": archive.sha256,
        "accepted": accepted is not None,
    }
    args.output.mkdir()
    (args.output / "source.json").write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
    if own and args.output.parent.resolve() in own.path.parents[1:]:  # was downloaded here, and may be replaced
        (args.output / own.place.file).hardlink_to(own.path)
    elif own:
        (args.output / own.place.file).symlink_to(own.path)
    else:
        archive.path.rename(args.output / archive.place.file)
    for part in args.output.parent.glob(f"{args.archive}.????????.part"):
        part.unlink()


if __name__ == "__main__":
    run(main)
