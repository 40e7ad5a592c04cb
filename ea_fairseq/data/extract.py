"""Extracts the text of a corpus, one sentence per line for each language, from its archives."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.data.archives import verified
from ea_fairseq.data.text_folder import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.containers import Member, open_members
from ea_fairseq.plain.text_lines import named_in_errors, progress, tidy, writing

DROPPED = ("<url>", "<talkid>", "<keywords>")
REMOVED = ("<title>", "</title>", "<description>", "</description>")
SEGMENT = re.compile(r'\s*<seg id="[0-9]*">(.*)</seg>\s*', re.DOTALL)
SEGMENT_TAG = re.compile(r"<seg\b|</seg>")


class FormatError(Exception):
    """What is wrong with a line; the message is the end of a sentence that begins with the line's place."""


def read_tagged(line: str) -> str | None:
    """Reads a line of IWSLT's training talks: its sentence, title or description; None for other metadata."""
    if any(tag in line for tag in DROPPED):
        return None
    for tag in REMOVED:
        line = line.replace(tag, "")
    return line


def read_segment(line: str) -> str | None:
    """Reads a line of a test set in SGML: the text of its ``<seg>``, or None if it has none.

    Raises:
        FormatError: if the line has more or less than one whole segment, or an empty one.
    """
    if not SEGMENT_TAG.search(line):
        return None
    segment = SEGMENT.fullmatch(line)
    if segment is None or SEGMENT_TAG.search(segment[1]):
        raise FormatError('is not one whole segment, <seg id="N">...</seg>: put each on a line of its own.')
    if not tidy(segment[1]):
        raise FormatError("has an empty segment, and test sets keep every line: remove it from both languages.")
    return segment[1].replace("\u2019", "'")


FORMATS: dict[str, Callable[[str], str | None]] = {"lines": str, "tags": read_tagged, "segments": read_segment}


@dataclass
class Extracted:
    """A member whose sentences are read; ``lines`` and ``sentences`` count those read so far."""

    member: Member
    lines: int = 0
    sentences: int = 0

    @property
    def place(self) -> str:
        """Where the member is, for messages."""
        return self.member.place

    def read(self, parse: Callable[[str], str | None]) -> Iterator[str]:
        """Yields the tidied sentences.

        Args:
            parse: one of ``FORMATS``.

        Raises:
            UserError: naming the line that is not UTF-8 or not of the format.
        """
        for line in progress(self.member.lines, self.member.name):
            self.lines += 1
            try:
                sentence = parse(line.decode("utf-8-sig" if self.lines == 1 else "utf-8"))
            except UnicodeDecodeError:
                raise UserError(
                    f"line {self.lines} of {self.place} is not UTF-8: fetch the archive from another place."
                ) from None
            except FormatError as error:
                raise UserError(f"line {self.lines} of {self.place} {error}") from None
            if sentence is not None:
                self.sentences += 1
                yield tidy(sentence)


def extract(archives: list[Path], names: dict[str, list[str]], form: str, compress: bool, output: Path) -> dict:
    """Writes the text of each language to a new folder.

    Args:
        names: names of the members of each language, in output order; their order in the archives does not matter.
        form: a key of ``FORMATS``.

    Returns:
        The counts of :func:`count`.

    Raises:
        UserError: if an archive or a member is wrong, or the languages do not match.
    """
    output.mkdir()
    suffix = ".gz" if compress else ""
    parts = {
        name: output / f"{number}.{language}{suffix}"
        for language, members in names.items()
        for number, name in enumerate(members)
    }
    extracted = {}
    for member in open_members(archives, parts):
        extracted[member.name] = Extracted(member)
        with writing(parts[member.name]) as write:
            for sentence in extracted[member.name].read(FORMATS[form]):
                write(sentence)
    for language, members in names.items():
        text = parts[members[0]].rename(output / f"text.{language}{suffix}")
        with named_in_errors(text), text.open("ab") as target:
            for part in (parts[name] for name in members[1:]):
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target)
                part.unlink()
    return count({language: [extracted[name] for name in members] for language, members in names.items()})


def count(extracted: dict[str, list[Extracted]]) -> dict[str, object]:
    """Returns the lines read and dropped for each language, and the pairs kept, for the history.

    Raises:
        UserError: if two members of a pair differ in their number of sentences, or have none.
    """
    for source, target in zip(*extracted.values(), strict=True):
        if source.sentences != target.sentences:
            raise UserError(
                f"{source.place} has {source.sentences} sentences and {target.place} has {target.sentences}: "
                "line by line they must be translations of each other."
            )
        if source.sentences == 0:
            raise UserError(f"{source.place} has no sentence: check that it is the right archive.")
    read = {language: sum(member.lines for member in members) for language, members in extracted.items()}
    kept = sum(member.sentences for member in next(iter(extracted.values())))
    markup = {language: lines - kept for language, lines in read.items()}
    return {"read": read, "dropped": {"markup": markup}, "kept": kept}


def extract_verified(
    output: Path, *, archives: list[Path], names: dict[str, list[str]], form: str, compress: bool
) -> None:
    """Makes a text folder from members of archives, which are verified first; see :func:`extract`.

    Args:
        archives: the folders that ``Sources.get`` made of them.
    """
    paths, sources = zip(*map(verified, archives), strict=True)
    counts = extract(list(paths), names, form, compress, output)
    History(list(sources), [{"step": "extract", "members": names} | counts]).write(output)
