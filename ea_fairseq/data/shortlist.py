"""``ea-fairseq shortlist``: for each source word the target words that most probably translate it.

The probabilities are those of model 1 of Brown et al., 1993, without the empty word, in NumPy.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.files import replacing, require_path
from ea_fairseq.plain.text_lines import progress, writing

AT_ONCE = 2_000  # sentence pairs
ITERATIONS = 5  # of expectation maximization; the order of a word's best translations hardly changes afterwards
LONGEST = 100  # words; longer sentences say little about single words and take much memory

Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target words


class Cells(NamedTuple):
    """The word pairs in some sentence pairs; those of a target word are adjacent.

    Args:
        keys: indices of the word pairs among all word pairs.
        firsts: where the cells of each target word begin.
        counts: how many cells each target word has: one per source word of its sentence.
    """

    keys: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray


class Lexicon:
    """Probabilities of target words given a source word.

    Args:
        pairs: pairs of non-empty sentences.
        target_words: size of the target dictionary.

    Attributes:
        source, target: ids of the words that occur together in a sentence pair, sorted.
        probability: the probability of each such target word given its source word.
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
        """Runs a round of expectation maximization."""
        expected = np.zeros(len(self.probability))
        for part in cells:
            share = self.probability[part.keys]
            share /= np.repeat(np.add.reduceat(share, part.firsts), part.counts)
            expected += np.bincount(part.keys, share, len(expected))
        self.probability = expected / np.bincount(self.source, expected)[self.source]

    def best(self, count: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each source word with at most ``count`` of its most probable target words, the best first."""
        order = np.lexsort((self.target, -self.probability, self.source))
        words, firsts = np.unique(self.source[order], return_index=True)
        for word, targets in zip(words.tolist(), np.split(self.target[order], firsts[1:]), strict=True):
            yield word, targets[:count]


def chunks_of(pairs: Iterable[Pair], target_words: int) -> Iterator[tuple[np.ndarray, Cells]]:
    """Yields, for chunks of sentence pairs, the numbers of their word pairs, and cells that index these."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, AT_ONCE)):
        keys = np.concatenate([np.add.outer(target, source * target_words).ravel() for source, target in chunk])
        counts = np.repeat([len(source) for source, _ in chunk], [len(target) for _, target in chunk])
        words, places = np.unique(keys, return_inverse=True)
        yield words, Cells(places.astype(np.int32), np.cumsum(counts) - counts, counts)


def read_pairs(data: Path, most: int) -> tuple:
    """Returns the training set's sentence pairs, evenly drawn if there are more than ``most``, and the dictionaries.

    Raises:
        UserError: if the folder has no binarised sentence pairs.
    """
    from fairseq.data import Dictionary
    from fairseq.data.data_utils import infer_language_pair, load_indexed_dataset

    languages: Any = infer_language_pair(str(data)) if data.is_dir() else (None, None)
    if None in languages:
        raise UserError(f"{data} has no binarised sentence pairs: give the data-bin of a preparation.")
    dictionaries = [Dictionary.load(str(data / f"dict.{language}.txt")) for language in languages]
    prefixes = [str(data / f"train.{'-'.join(languages)}.{language}") for language in languages]
    sides = [
        load_indexed_dataset(prefix, dictionary) for prefix, dictionary in zip(prefixes, dictionaries, strict=True)
    ]
    if None in sides:
        raise UserError(f"{data} has no training set: give the data-bin of a preparation.")

    def pairs() -> Iterator[Pair]:
        step = -(-len(sides[0]) // most)
        for number in progress(range(0, len(sides[0]), step), "reading sentence pairs", "pairs"):
            pair = tuple(side[number].numpy().astype(np.int64)[:-1] for side in sides)  # without the end of sentence
            if all(0 < len(sentence) <= LONGEST for sentence in pair):
                yield pair

    return pairs(), *dictionaries


def learn_shortlist(data: Path, output: Path, words: int, frequent: int, most: int) -> None:
    """Writes a line of frequent words without a source word, then one per source word: the word, a tab, translations.

    Args:
        words: maximum number of translations of a word.
        frequent: number of the target's most frequent words, which every sentence may have.
        most: maximum number of sentence pairs to learn from.

    Raises:
        UserError: if there are no pairs, or the output cannot be a file.
    """
    if output.is_dir() or not output.parent.is_dir():
        raise UserError(f"{output} cannot be a file: name one in an existing folder.")
    pairs, source, target = read_pairs(data, most)
    first = next(pairs, None)
    if first is None:
        raise UserError(f"{data} has no training pair of at most {LONGEST} words to learn from: give other data.")
    lexicon = Lexicon(chain([first], pairs), len(target))
    order = sorted(range(target.nspecial, len(target)), key=lambda word: -target.count[word])
    with replacing(output) as unfinished, writing(unfinished) as write:
        write("\t" + " ".join(target[word] for word in order[:frequent]))
        for word, translations in lexicon.best(words):
            if word >= source.nspecial:
                names = [target[translation] for translation in translations if translation >= target.nspecial]
                write(f"{source[word]}\t{' '.join(names)}")


def main() -> None:
    """Parses the command line and calls :func:`learn_shortlist`."""
    parser = Parser(
        "shortlist",
        "Learns from the training set in DATA_BIN which target words translate which source words (IBM's model 1),\n"
        "and writes FILE for --shortlist of translate, fairseq-generate and fairseq-interactive: models then choose\n"
        "only among the translations of a batch's source words and the most frequent words. FILE is text: a source\n"
        "word, a tab, its translations.",
        "ea-fairseq shortlist data/multi30k-deen/data-bin data/multi30k-deen/shortlist.tsv",
        usage="%(prog)s [options] DATA_BIN FILE",
    )
    for flag, default, meaning in (
        ("--words", 50, "translations of a source word"),
        ("--frequent", 200, "number of the most frequent target words, which are in every shortlist"),
        ("--pairs", 100_000, "sentence pairs to learn from; 100,000 take half a gigabyte of memory"),
    ):
        about = f"{meaning} (default: %(default)s)"
        parser.add_argument(flag, type=at_least(1), default=default, metavar="N", help=about)
    parser.add_argument("data", type=Path, metavar="DATA_BIN", help="a folder of binarised data")
    parser.add_argument("output", type=Path, metavar="FILE", help="the file to write")
    args = parser.parse_args()
    logging.disable(logging.INFO)  # fairseq's
    learn_shortlist(require_path(args.data), args.output, args.words, args.frequent, args.pairs)
