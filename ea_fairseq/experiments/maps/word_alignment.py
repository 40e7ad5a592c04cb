"""Alignments of words, and how far those that attention makes are from them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import read_lines

LINK = re.compile(r"(\d+)([-?])(\d+)")


@dataclass(frozen=True)
class WordAlignment:
    """The links of a sentence pair, (source word, target word) from 0.

    Args:
        sure, possible: those that an aligner should and may find; all sure links are possible, too.
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @classmethod
    def parse(cls, line: str) -> "WordAlignment":
        """Reads ``0-0 1?2``, a sure and a possible link; raises ValueError naming what is none."""
        sure, possible = set(), set()
        for text in line.split():
            if (match := LINK.fullmatch(text)) is None:
                raise ValueError(text)
            link = int(match[1]), int(match[3])
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))


def read_alignments(path: Path, pairs: int) -> list[WordAlignment]:
    """Reads a file with the links of one pair a line.

    Raises:
        UserError: naming the line that is malformed, or where there are not as many lines as ``pairs``.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}: name that of the alignment with --alignment.")
    try:
        alignments = list(parsed(read_lines(path), path))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text: give a file with links such as '0-0 1?2', a pair a line.") from None
    if len(alignments) != pairs:
        raise UserError(
            f"{path} has {len(alignments)} lines for {pairs} pairs: give the alignment of this subset, a pair a line."
        )
    return alignments


def parsed(lines: Iterator[str], path: Path) -> Iterator[WordAlignment]:
    """The alignments of lines of links; raises UserError, which names file and line, where one is none."""
    for number, line in enumerate(lines, 1):
        try:
            yield WordAlignment.parse(line)
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: '{error}' is no link: write 0-0 for a sure one and 1?2 for a possible one, "
                "the source word first."
            ) from None


class AlignmentError:
    """The alignment error rate (Och and Ney, 2003) of the links to the source word with most attention.

    1 - (|A & S| + |A & P|) / (|A| + |S|) for the links A found, the sure S and the possible P, over all pairs.
    """

    def __init__(self):
        self.hits: Tensor | int = 0
        self.links = 0

    def add(self, words: Tensor, gold: WordAlignment) -> None:
        """Counts the links of maps (..., T, S) of target by source words, without ``</s>``.

        Raises:
            ValueError: naming a link that leads to a word that is not there.
        """
        targets, sources = words.shape[-2:]
        credit = torch.zeros(targets, sources, dtype=torch.long)
        for links in (gold.sure, gold.possible):
            for source, target in links:
                if source >= sources or target >= targets:
                    raise ValueError(f"{source} to {target}")
                credit[target, source] += 1
        found = words.argmax(-1)  # (..., T)
        self.hits = self.hits + credit[torch.arange(targets), found].sum(-1)
        self.links += targets + len(gold.sure)

    def rate(self) -> Tensor:
        """Of each map, between 0 and 1."""
        return 1 - self.hits / self.links
