"""Word alignments, and the error of those that attention implies."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.functional import one_hot

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.subwords import word_numbers
from ea_fairseq.hub.translation import TranslationHub
from ea_fairseq.plain.text_lines import read_lines

LINK = re.compile(r"(\d+)([-?])(\d+)")


@dataclass(frozen=True)
class WordAlignment:
    """The links of a sentence pair, (source word, target word) from 0.

    Args:
        sure, possible: links that an aligner should find, and may find; all sure links are also possible.
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @classmethod
    def parse(cls, line: str) -> "WordAlignment":
        """Parses links such as ``0-0 1?2``, a sure and a possible one; raises ValueError naming an invalid one."""
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
    """Reads a file with the links of one pair per line.

    Raises:
        UserError: naming a malformed line, or if the number of lines is not ``pairs``.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}: name the alignment file with --alignment.")
    try:
        alignments = list(parsed(read_lines(path), path))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text: give a file with links such as '0-0 1?2', one pair per line.") from None
    if len(alignments) != pairs:
        raise UserError(
            f"{path} has {len(alignments)} lines for {pairs} pairs: give one line for each pair of this subset."
        )
    return alignments


def parsed(lines: Iterator[str], path: Path) -> Iterator[WordAlignment]:
    """Yields the alignment of each line; raises UserError, naming file and line, if a link is invalid."""
    for number, line in enumerate(lines, 1):
        try:
            yield WordAlignment.parse(line)
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: '{error}' is no link: write 0-0 for a sure link and 1?2 for a possible one, "
                "with the source word first."
            ) from None


class AlignmentError:
    """The alignment error rate (Och and Ney, 2003) of the links to the source word with most attention.

    1 - (|A & S| + |A & P|) / (|A| + |S|) for the links A found, the sure S and the possible P, over all pairs.
    """

    def __init__(self) -> None:
        self.hits = torch.tensor(0)
        self.links = 0

    def add(self, words: Tensor, gold: WordAlignment) -> None:
        """Counts the links of word maps (..., T, S), target by source words without ``</s>``.

        Raises:
            ValueError: naming a link to a word that does not exist.
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
        """Returns the error rate of each map, between 0 and 1."""
        return 1 - self.hits / self.links


class AttentionAlignment:
    """Accumulates the alignment error of cross-attention maps over the pairs of a text.

    Args:
        alignments: the gold alignment of each pair.

    Attributes:
        left_out: number of pairs that do not count because they have unknown pieces, so their words cannot be found.
    """

    def __init__(self, hub: TranslationHub, alignments: list[WordAlignment]):
        self.hub, self.subword = hub, hub.subword
        self.alignments = alignments
        self.errors = AlignmentError()
        self.left_out = 0

    def add(self, batch: dict, maps: Tensor) -> None:
        """Counts the links of a batch's maps (L, B, K, T, S); a target word's row is the one that predicts it.

        Raises:
            UserError: naming the line of the alignment with a word that does not exist.
        """
        targets, sources = batch["target"].cpu(), batch["net_input"]["src_tokens"].cpu()
        for row, pair in enumerate(batch["id"].tolist()):
            pieces = maps[:, row]
            pieces = pieces[:, :, targets[row] != self.hub.tgt_dict.pad()]
            pieces = pieces[..., sources[row] != self.hub.src_dict.pad()]
            queries = self.words(targets[row], self.hub.tgt_dict)
            keys = self.words(sources[row], self.hub.src_dict)
            if queries is None or keys is None:
                self.left_out += 1
                continue
            words = merge(pieces, queries, keys)[..., :-1, :-1]  # without </s>
            try:
                self.errors.add(words, self.alignments[pair])
            except ValueError as error:
                raise UserError(
                    f"the alignment, line {pair + 1}, links word {error}, and the pair has {words.size(-1)} source and "
                    f"{words.size(-2)} target words: number the tokenized words of this data from 0."
                ) from None

    def words(self, tokens: Tensor, dictionary: Dictionary) -> list[int] | None:
        """The numbers of the words of a row of tokens, or None if they cannot be determined."""
        pieces = [dictionary[token] for token in tokens if token != dictionary.pad()]
        if self.subword != "none" and dictionary.unk_word in pieces:
            return None
        return word_numbers(pieces, self.subword)


def merge(probabilities: Tensor, queries: list[int], keys: list[int]) -> Tensor:
    """Merges maps (..., T, S) of pieces into maps of words: sums over the pieces of a key, means over those of a query.

    Args:
        queries, keys: the T and S numbers of the pieces' words, see :func:`subwords.word_numbers`.
    """
    rows, columns = (one_hot(torch.tensor(numbers)).to(probabilities) for numbers in (queries, keys))
    return (rows / rows.sum(0)).T @ probabilities @ columns
