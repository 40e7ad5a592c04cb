"""Extracts the text of a corpus, one sentence a line for each language, from its archives."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ea_fairseq.data.archives import Place, verify
from ea_fairseq.data.containers import Member, open_members
from ea_fairseq.data.formats import FORMATS, FormatError
from ea_fairseq.data.history import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import open_bytes, progress, tidy, writing


@dataclass
class Tally:
    """The numbers of lines and of sentences read from a member so far; ``place`` says where it is, for messages."""

    place: str
    lines: int = 0
    sentences: int = 0


@dataclass
class Side:
    """The text of a language, written in the order of ``names``, whatever the order of the members in the archives.

    Args:
        language: its suffix.
        names: of the members.
        path: of the text.
        write: appends a line to it.
        tallies: of the members read, by name.
        complete: how many of the names, from the first on, are written.
    """

    language: str
    names: list[str]
    path: Path
    write: Callable[[str], object]
    tallies: dict[str, Tally] = field(default_factory=dict)
    complete: int = 0

    def add(self, member: Member, parse: Callable[[str], str | None]) -> None:
        """Append a member's sentences, or write them to a file aside until the members before it have come."""
        tally = self.tallies[member.name] = Tally(member.place)
        sentences = read_sentences(member, parse, tally)
        if member.name != self.names[self.complete]:
            with writing(self._aside(member.name)) as write:
                for sentence in sentences:
                    write(sentence)
            return
        for sentence in sentences:
            self.write(sentence)
        self.complete += 1
        while self.complete < len(self.names) and self.names[self.complete] in self.tallies:
            aside = self._aside(self.names[self.complete])
            with open_bytes(aside) as lines:
                for line in lines:
                    self.write(line.decode("utf-8").removesuffix("\n"))
            aside.unlink()
            self.complete += 1

    def _aside(self, name: str) -> Path:
        """The file for a member that came before its turn."""
        return self.path.with_name(f"{self.names.index(name)}.{self.path.name}")


def read_sentences(member: Member, parse: Callable[[str], str | None], tally: Tally) -> Iterator[str]:
    """Yields the tidied sentences of a member and counts lines and sentences in ``tally``.

    Args:
        parse: from a line to its sentence, or None; see ``formats.py``.

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
    """Write the text of each language to a new folder.

    Args:
        names: of the members of each language, in order.
        form: a key of ``FORMATS``.

    Returns:
        What :func:`count` counts.

    Raises:
        UserError: where an archive or a member is wrong, or the languages do not match.
    """
    output.mkdir()
    languages = {name: language for language, members in names.items() for name in members}
    with ExitStack() as stack:
        sides = {}
        for language, members in names.items():
            path = output / f"text.{language}{'.gz' * compress}"
            sides[language] = Side(language, members, path, stack.enter_context(writing(path)))
        for member in open_members(archives, languages):
            sides[languages[member.name]].add(member, FORMATS[form])
    return count(list(sides.values()))


def count(sides: list[Side]) -> dict[str, object]:
    """The lines read and dropped of each language, and the pairs kept, for the history.

    Raises:
        UserError: where two members of a pair differ in their number of sentences, or have none.
    """
    tallies = {side.language: [side.tallies[name] for name in side.names] for side in sides}
    for source, target in zip(*tallies.values(), strict=True):
        if source.sentences != target.sentences:
            raise UserError(
                f"{source.place} has {source.sentences} sentences and {target.place} has {target.sentences}: "
                "line by line they must be translations of each other."
            )
        if source.sentences == 0:
            raise UserError(f"{source.place} has no sentence: check that it is the right archive.")
    read = {language: sum(tally.lines for tally in members) for language, members in tallies.items()}
    kept = sum(tally.sentences for tally in tallies[sides[0].language])
    markup = {language: lines - kept for language, lines in read.items()}
    return {"read": read, "dropped": {"markup": markup}, "kept": kept}


def verified(folder: Path) -> tuple[Path, dict[str, object]]:
    """The file in an archive folder, verified against source.json, and the content of source.json.

    Raises:
        WrongFileError: where size or checksum differ.
    """
    source = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    path = folder / source["file"]
    verify(path, Place(*(source[name] for name in ("archive", "size", "checksum", "address"))))
    return path, source


def extract_verified(
    output: Path, *, archives: list[Path], names: dict[str, list[str]], form: str, compress: bool
) -> None:
    """Makes a text folder of the members of archives, which are verified first; see :func:`extract`.

    Args:
        archives: the folders that ``Sources.get`` made of them.
    """
    paths, sources = zip(*map(verified, archives), strict=True)
    counts = extract(list(paths), names, form, compress, output)
    step = {"step": "extract", "members": names} | counts
    History(list(sources), [step]).write(output / "history.json")
