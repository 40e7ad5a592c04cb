"""Extracts the text of a corpus, one sentence per line for each language, from its archives."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.data.archives import verified
from ea_fairseq.data.containers import Member, open_members
from ea_fairseq.data.text_folder import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import named_in_errors, progress, tidy, writing

DROPPED = ("<url>", "<talkid>", "<keywords>")
REMOVED = ("<title>", "</title>", "<description>", "</description>")
SEGMENT = re.compile(r'\s*<seg id="[0-9]*">(.*)</seg>\s*', re.DOTALL)
SEGMENT_TAG = re.compile(r"<seg\b|</seg>")


class FormatError(Exception):
    """What is wrong with a line; the message is the end of a sentence that begins with the line's place."""


def read_line(line: str) -> str:
    """Plain text, one sentence per line."""
    return line


def read_tagged(line: str) -> str | None:
    """Training talks of IWSLT: the sentence on a line, titles and descriptions included; None for other metadata."""
    if any(tag in line for tag in DROPPED):
        return None
    for tag in REMOVED:
        line = line.replace(tag, "")
    return line


def read_segment(line: str) -> str | None:
    """Test sets in SGML: the text of the ``<seg>`` on a line; None for a line without one.

    Raises:
        FormatError: where the line has more or less than one whole segment, or an empty one.
    """
    if not SEGMENT_TAG.search(line):
        return None
    segment = SEGMENT.fullmatch(line)
    if segment is None or SEGMENT_TAG.search(segment[1]):
        raise FormatError('is not one whole segment, <seg id="N">...</seg>: put each on a line of its own.')
    if not tidy(segment[1]):
        raise FormatError("has an empty segment, and test sets keep every line: remove it from both languages.")
    return segment[1].replace("\u2019", "'")


FORMATS = {"lines": read_line, "tags": read_tagged, "segments": read_segment}


@dataclass
class Tally:
    """The numbers of lines and of sentences read from a member so far; ``place`` says where it is, for messages."""

    place: str
    lines: int = 0
    sentences: int = 0


def read_sentences(member: Member, parse: Callable[[str], str | None], tally: Tally) -> Iterator[str]:
    """Yields the tidied sentences of a member and counts lines and sentences in ``tally``.

    Args:
        parse: one of ``FORMATS``.

    Raises:
        UserError: naming the line that is not UTF-8 or not of the format.
    """
    for line in progress(member.lines, member.name):
        tally.lines += 1
        try:
            sentence = parse(line.decode("utf-8-sig" if tally.lines == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise UserError(
                f"line {tally.lines} of {member.place} is not UTF-8: fetch the archive from another place."
            ) from None
        except FormatError as error:
            raise UserError(f"line {tally.lines} of {member.place} {error}") from None
        if sentence is not None:
            tally.sentences += 1
            yield tidy(sentence)


def extract(archives: list[Path], names: dict[str, list[str]], form: str, compress: bool, output: Path) -> dict:
    """Writes the text of each language to a new folder.

    Args:
        names: of the members of each language, in order, whatever their order in the archives.
        form: a key of ``FORMATS``.

    Returns:
        What :func:`count` counts.

    Raises:
        UserError: where an archive or a member is wrong, or the languages do not match.
    """
    output.mkdir()
    suffix = ".gz" if compress else ""
    parts = {
        name: output / f"{number}.{language}{suffix}"
        for language, members in names.items()
        for number, name in enumerate(members)
    }
    tallies = {}
    for member in open_members(archives, parts):
        tally = tallies[member.name] = Tally(member.place)
        with writing(parts[member.name]) as write:
            for sentence in read_sentences(member, FORMATS[form], tally):
                write(sentence)
    for language, members in names.items():
        first, *others = (parts[name] for name in members)
        text = first.rename(output / f"text.{language}{suffix}")
        for part in others:
            append(part, text)
    return count({language: [tallies[name] for name in members] for language, members in names.items()})


def append(part: Path, text: Path) -> None:
    """Moves what a file has to the end of another, both plain or both gzipped."""
    with named_in_errors(text), part.open("rb") as source, text.open("ab") as target:
        shutil.copyfileobj(source, target)
    part.unlink()


def count(tallies: dict[str, list[Tally]]) -> dict[str, object]:
    """The lines read and dropped of each language, and the pairs kept, for the history.

    Raises:
        UserError: where two members of a pair differ in their number of sentences, or have none.
    """
    for source, target in zip(*tallies.values(), strict=True):
        if source.sentences != target.sentences:
            raise UserError(
                f"{source.place} has {source.sentences} sentences and {target.place} has {target.sentences}: "
                "line by line they must be translations of each other."
            )
        if source.sentences == 0:
            raise UserError(f"{source.place} has no sentence: check that it is the right archive.")
    read = {language: sum(tally.lines for tally in members) for language, members in tallies.items()}
    kept = sum(tally.sentences for tally in next(iter(tallies.values())))
    markup = {language: lines - kept for language, lines in read.items()}
    return {"read": read, "dropped": {"markup": markup}, "kept": kept}


def extract_verified(
    output: Path, *, archives: list[Path], names: dict[str, list[str]], form: str, compress: bool
) -> None:
    """Makes a text folder of the members of archives, which are verified first; see :func:`extract`.

    Args:
        archives: the folders that ``Sources.get`` made of them.
    """
    paths, sources = zip(*map(verified, archives), strict=True)
    counts = extract(list(paths), names, form, compress, output)
    History(list(sources), [{"step": "extract", "members": names} | counts]).write(output)
