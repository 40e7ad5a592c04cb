"""Files: those that others made, those written whole or not at all, and paths that fairseq reads as they are."""

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ea_fairseq.errors import FileError, UserError
from ea_fairseq.plain.records import MEGABYTE
from ea_fairseq.plain.text_lines import named_in_errors

MEANING = re.compile(r":|\$\{")  # ":" separates paths, "${" begins the name of another option


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a file to write, which then replaces ``path``; on failure it is removed."""
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        with named_in_errors(path):
            yield unfinished
            unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Writes a table, header included, whole or not at all."""
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read_tsv(path: Path) -> list[dict[str, str]]:
    """Reads a table of ours whose first line has the names of its columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def own_file(path: Path, largest: int) -> Path:
    """Returns the path; raises UserError if it is not a file, links out of its folder or has more bytes than that."""
    if not path.is_file():
        raise FileError(f"there is no {path}: copy it from where the others in its folder are from.")
    if path.resolve().parent != path.parent.resolve():
        raise FileError(f"{path} is a link out of its folder: put the file itself there.")
    if path.stat().st_size > largest:
        raise FileError(f"{path} has more than {largest // MEGABYTE} MB, which no file of its kind has: remove it.")
    return path


def require_path(path: Path) -> Path:
    """Returns the path; raises UserError if the absolute path has characters with a meaning for fairseq."""
    if found := MEANING.search(str(path.absolute())):
        raise UserError(f"'{found[0]}' in a path has a meaning for fairseq: use another folder than {path.absolute()}.")
    return path
