"""Writes the embedded corpus: distinct German-English sentence pairs in disjoint train, valid and test sets.

DIR receives {train,valid,test}.{de,en}, 24,000, 500 and 500 pairs, one per line, and test.word-for-word.en, the
German test set with every word replaced by its dictionary gloss and nothing reordered. docs/data.md says who wrote it.
"""

import tarfile
from contextlib import ExitStack
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import PROGRAM, Parser
from ea_fairseq.plain.files import replacing

ARCHIVE = Path(__file__).with_name("embedded-corpus.tar.bz2")
SHA256 = "854451ae39bb3d283b78655480e02205f4941fb6255e3977afba53d0315b845f"
GLOSSES = "test.word-for-word.en"  # which no other corpus has


def unpack() -> dict[str, bytes]:
    """Returns the content of each file; raises UserError if the archive is not the one of this package."""
    packed = ARCHIVE.read_bytes() if ARCHIVE.is_file() else b""
    if sha256(packed).hexdigest() != SHA256:
        raise UserError(f"{ARCHIVE} is missing, damaged or another file: take it from the repository again")
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        return {member.name: file.read() for member in archive if (file := archive.extractfile(member))}


def write(out: Path, files: dict[str, bytes]) -> None:
    """Writes the files into a folder, all of them or none.

    Raises:
        UserError: if the folder has other files and so may be meant for something else.
    """
    out.mkdir(parents=True, exist_ok=True)
    there = [path.name for path in out.iterdir() if path.suffix != ".tmp"]
    if there and GLOSSES not in there:
        raise UserError(f"{out} holds other files: give a new folder, or that of an earlier run.")
    with ExitStack() as stack:
        for name in sorted(files, key=GLOSSES.__eq__):  # entered last, so it is put in place first
            stack.enter_context(replacing(out / name)).write_bytes(files[name])


def main() -> None:
    """Writes the corpus."""
    parser = Parser("corpus", __doc__, f"{PROGRAM} corpus --out data/embedded-corpus")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    write(parser.parse_args().out, unpack())
