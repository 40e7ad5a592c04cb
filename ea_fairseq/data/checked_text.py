"""Users' text files, which are read to their end and checked before they are used."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import Tag, is_tag
from ea_fairseq.plain.text_lines import checked_lines, find_file, progress, tidy


@dataclass(frozen=True)
class CheckedFile:
    """A file of text that has been read; ``size`` and ``checksum`` (sha256) are of its text."""

    path: Path
    lines: int
    size: int
    checksum: str


@dataclass(frozen=True)
class CheckedPairs:
    """The files of a split.

    Args:
        files: those of source, target and, if there is one, of the source sentences' tags, line by line.
        tags: the tags that the source sentences have.
    """

    files: tuple[CheckedFile, ...]
    tags: frozenset[Tag] = frozenset()

    def tagged_by(self, path: Path) -> "CheckedPairs":
        """Returns these pairs with the tags in a file; raises UserError if a line is no tag, or lengths differ."""
        found = set()

        def check(number: int, text: str) -> None:
            if text and not is_tag(text):
                raise UserError(
                    f"line {number} of {path} is no tag: a tag has up to 64 letters, digits and . _ -, and is none of "
                    "fairseq's symbols (s, pad, unk, mask); leave the line empty for a sentence without a tag."
                )
            found.add(Tag(text))

        files = (*self.files, read_checked(path, path.name, check))
        require_equal_length(files[0], files[2], "give one tag per line.")
        return CheckedPairs(files, frozenset(filter(None, found)))


def check_pairs(prefix: Path, languages: tuple[str, ...], keeps_empty: bool = False) -> CheckedPairs:
    """Checks the two files ``prefix.xx`` and ``prefix.yy``, plain or gzipped.

    Args:
        keeps_empty: whether every line will be kept, so that none may be empty.

    Raises:
        UserError: if a file is missing or wrong, or they differ in their number of lines.
    """
    names = [f"{prefix.name}.{language}" for language in languages]
    source, target = (check_file(find_file(prefix.parent, name), name, keeps_empty) for name in names)
    require_equal_length(source, target, "line by line they must be translations of each other.")
    return CheckedPairs((source, target))


def check_file(path: Path, name: str, keeps_empty: bool = False) -> CheckedFile:
    """Reads a file to its end and checks it.

    Raises:
        UserError: if it is empty, damaged or not UTF-8, or has an empty line although every line is kept.
    """

    def check(number: int, text: str) -> None:
        if keeps_empty and not text:
            raise UserError(
                f"line {number} of {path} is empty, and valid and test keep every line: remove it from both languages."
            )

    return read_checked(path, name, check)


def read_checked(path: Path, name: str, check: Callable[[int, str], None]) -> CheckedFile:
    """Reads a file to its end, and passes the number and the tidied text of each line to ``check``.

    Raises:
        UserError: if the file is empty, damaged or not UTF-8.
    """
    digest = hashlib.sha256()
    number = size = 0
    for number, line in progress(checked_lines(path), name):
        digest.update(line)
        size += len(line)
        check(number, tidy(line.decode("utf-8-sig" if number == 1 else "utf-8")))
    if number == 0:
        raise UserError(f"{path} is empty: put its sentences there, one per line.")
    return CheckedFile(path, number, size, digest.hexdigest())


def require_equal_length(one: CheckedFile, other: CheckedFile, remedy: str) -> None:
    """Raises UserError, whose message ends with ``remedy``, if two files differ in their number of lines."""
    if one.lines != other.lines:
        raise UserError(f"{one.path} has {one.lines} lines and {other.path} has {other.lines}: {remedy}")
