"""A corpus repeated to any size, in archives like those of WMT'14 English-German."""

import gzip
import hashlib
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain, islice, repeat
from pathlib import Path
from random import Random
from typing import IO

# Exponent of Heaps' law, by which types grow with text: fitted to news, talks, parliament and single sentences.
GROWTH = 0.53
FEW = 100  # pairs in each archive but europarl

FILES = {
    "europarl-v7": "training-parallel-europarl-v7.tgz",
    "commoncrawl": "training-parallel-commoncrawl.tgz",
    "nc-v9": "training-parallel-nc-v9.tgz",
    "dev": "dev.tgz",
    "test-full": "test-full.tgz",
}
Pair = tuple[str, str]
LANGUAGES = ("de", "en")


@dataclass(frozen=True)
class Corpus:
    """The training pairs of a folder with train.de and train.en, plain or .gz."""

    folder: Path

    def pairs(self) -> Iterator[Pair]:
        """Yields the pairs, without line feeds; raises ValueError where there are none."""
        source, target = map(self._open, LANGUAGES)
        with source, target:
            if source.readline() == "":
                raise ValueError(f"{self.folder} has an empty train.{LANGUAGES[0]}: put text there.")
            source.seek(0)
            for pair in zip(source, target, strict=True):
                yield tuple(line.removesuffix("\n") for line in pair)

    def repeated(self) -> Iterator[Pair]:
        """Yields the pairs over and over, without end."""
        return chain.from_iterable(self.pairs() for _ in repeat(None))

    def growing(self, seed: int = 1) -> Iterator[Pair]:
        """Yields the pairs over and over, with new words in repeated ones, so that types grow by Heaps' law.

        A new word joins the head of one word and the tail of another, like a compound.
        """
        size, types = 0, set()
        for pair in self.pairs():
            yield pair
            size += 1
            types.update(*map(str.split, pair))
        chance, others = Random(seed), ("", "")
        for number, pair in enumerate(self.repeated(), size + 1):
            rate = GROWTH * len(types) / size * (number / size) ** (GROWTH - 1)
            yield tuple(_with_new_word(*sides, chance, rate / 2) for sides in zip(pair, others, strict=True))
            others = pair

    def _open(self, language: str) -> IO[str]:
        """Opens the text of a language."""
        plain = self.folder / f"train.{language}"
        zipped = plain.with_name(f"{plain.name}.gz")
        if plain.exists():
            return plain.open(encoding="utf-8", newline="\n")
        return gzip.open(zipped, "rt", encoding="utf-8", newline="\n")


def _with_new_word(line: str, other: str, chance: Random, rate: float) -> str:
    """The line with, at this probability, its longest word compounded with the longest of another line."""
    if chance.random() >= rate or not line:
        return line
    head, tail = (max(text.split(" "), key=len) for text in (line, other))
    new = head[: chance.randint(1, len(head) or 1)] + tail[chance.randint(0, len(tail) // 2) :]
    return line.replace(head, new, 1)


def write_archives(folder: Path, pairs: Iterator[Pair], size: int) -> tuple[dict[str, str], int]:
    """Write archives like those of WMT'14, with ``size`` pairs in europarl.

    Returns:
        The checksum of each archive, and the bytes of europarl's text.
    """
    text = folder / "text"
    europarl = _write_lines(text, "training/europarl-v7.de-en", islice(pairs, size))
    few = list(islice(pairs, FEW))
    members = {
        "europarl-v7": europarl,
        "commoncrawl": _write_lines(text, "commoncrawl.de-en", few),
        "nc-v9": _write_lines(text, "training/news-commentary-v9.de-en", few),
        "dev": _write_lines(text, "dev/newstest2013", few),
        "test-full": _write_segments(text, few),
    }
    checksums = {name: _pack(folder / FILES[name], text, members[name]) for name in FILES}
    size = sum((text / member).stat().st_size for member in europarl)
    shutil.rmtree(text)
    return checksums, size


def _write_lines(folder: Path, name: str, pairs: Iterable[Pair]) -> list[str]:
    """Writes pairs as plain text; returns the names of the two files."""
    members = [f"{name}.{language}" for language in LANGUAGES]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    source, target = ((folder / member).open("w", encoding="utf-8") for member in members)
    with source, target:
        for pair in pairs:
            source.write(f"{pair[0]}\n")
            target.write(f"{pair[1]}\n")
    return members


def _write_segments(folder: Path, pairs: list[Pair]) -> list[str]:
    """Writes pairs as SGML segments; returns the names of the two files."""
    members = ["test-full/newstest2014-deen-ref.de.sgm", "test-full/newstest2014-deen-src.en.sgm"]
    (folder / "test-full").mkdir()
    for member, lines in zip(members, zip(*pairs, strict=True), strict=True):
        segments = [f'<seg id="{number}">{escape(line)}</seg>\n' for number, line in enumerate(lines)]
        (folder / member).write_text("".join(segments), encoding="utf-8")
    return members


def _pack(archive: Path, folder: Path, members: list[str]) -> str:
    """Writes a .tgz of files of a folder; returns its checksum."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for member in members:
            tar.add(folder / member, member)
    with archive.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
