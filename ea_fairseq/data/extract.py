"""Extract the text of a corpus, one sentence a line for each language, from its archives."""

import argparse
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
from ea_fairseq.plain.commands import run
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


def parse_members(languages: list[str], members: list[str]) -> dict[str, list[str]]:
    """The names of the members of each language, from options LANGUAGE=PATH; raises UserError for bad ones."""
    names = {language: [] for language in languages}
    for member in members:
        language, _, name = member.partition("=")
        if language not in names or not name:
            raise UserError(f"--member needs LANGUAGE=PATH with a language of {languages}, not '{member}'.")
        names[language].append(name)
    if len(set(map(len, names.values()))) > 1 or len({member.partition("=")[2] for member in members}) < len(members):
        raise UserError("--member needs as many members of each language, all of them different.")
    return names


def main() -> None:
    """Extract."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE")
    parser.add_argument("--member", action="append", required=True, metavar="LANGUAGE=PATH", help="in their order")
    parser.add_argument("--compress", action="store_true", help="gzip the text")
    parser.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE_FOLDER", help="what download.py made")
    parser.add_argument("output", type=Path, help="text folder to make")
    args = parser.parse_args()
    names = parse_members(args.languages, args.member)
    archives, sources = zip(*map(verified, args.archives), strict=True)
    counts = extract(archives, names, args.format, args.compress, args.output)
    step = {"step": "extract", "members": names} | counts
    History(list(sources), [step]).write(args.output / "history.json")


if __name__ == "__main__":
    run(main)
