"""Which target words translate a source word: model 1 of Brown et al., 1993, without the empty word, in NumPy."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from ea_fairseq.plain.text_lines import progress

AT_ONCE = 2_000  # sentence pairs
ITERATIONS = 5  # of expectation maximization; the order of a word's best translations hardly changes afterwards

Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target words


class Cells(NamedTuple):
    """The pairs of words in some sentence pairs, those of a target word side by side.

    Args:
        keys: places of the pairs of words among all that there are.
        firsts: where the cells of each target word begin.
        counts: how many cells it has: as many as its sentence has source words.
    """

    keys: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray


class Lexicon:
    """Probabilities of target words given a source word.

    Args:
        pairs: of sentences, none of them empty.
        target_words: in the dictionary.

    Attributes:
        source, target: ids of the words that occur in a sentence pair together, by ids.
        probability: of each target word given its source word.
    """

    def __init__(self, pairs: Iterable[Pair], target_words: int):
        chunks = list(chunks_of(pairs, target_words))
        keys = np.unique(np.concatenate([words for words, _ in chunks]))
        self.source, self.target = np.divmod(keys, target_words)
        self.probability = np.ones(len(keys))
        cells = [part._replace(keys=np.searchsorted(keys, words)[part.keys]) for words, part in chunks]
        for _ in progress(range(ITERATIONS), "learning translations", "rounds"):
            self.improve(cells)

    def improve(self, cells: list[Cells]) -> None:
        """A round of expectation maximization."""
        expected = np.zeros(len(self.probability))
        for part in cells:
            share = self.probability[part.keys]
            share /= np.repeat(np.add.reduceat(share, part.firsts), part.counts)
            expected += np.bincount(part.keys, share, len(expected))
        self.probability = expected / np.bincount(self.source, expected)[self.source]

    def best(self, count: int) -> Iterator[tuple[int, np.ndarray]]:
        """Each source word with its most probable target words, at most so many, the best first."""
        order = np.lexsort((self.target, -self.probability, self.source))
        words, firsts = np.unique(self.source[order], return_index=True)
        for word, targets in zip(words.tolist(), np.split(self.target[order], firsts[1:]), strict=True):
            yield word, targets[:count]


def chunks_of(pairs: Iterable[Pair], target_words: int) -> Iterator[tuple[np.ndarray, Cells]]:
    """Some sentence pairs at a time: their pairs of words, as numbers, and the cells with places among these."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, AT_ONCE)):
        keys = np.concatenate([np.add.outer(target, source * target_words).ravel() for source, target in chunk])
        counts = np.repeat([len(source) for source, _ in chunk], [len(target) for _, target in chunk])
        words, places = np.unique(keys, return_inverse=True)
        yield words, Cells(places.astype(np.int32), np.cumsum(counts) - counts, counts)
