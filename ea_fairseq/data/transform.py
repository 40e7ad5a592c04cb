"""A step from text folders to a text folder: applies a function to all or some sentence pairs, in several processes."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, compress, count, islice
from pathlib import Path
from typing import TypeVar

from ea_fairseq.data.parallel import map_in_order
from ea_fairseq.data.text_folder import History, Pair, TextFolder, encode_lines, writing_sides
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import progress, tidy
from ea_fairseq.text.tags import tag_token

CHUNK = 5000  # pairs
REASONS = ("empty", "too_long", "ratio", "long_word")  # to drop a pair, as in Moses' clean-corpus-n
MAX_WORD_LENGTH = 1000  # characters, as there

Item = TypeVar("Item")
Lines = list[str]
Transform = Callable[..., tuple]  # of the lines of each language, and of tags if there are some


@dataclass(frozen=True)
class Sample:
    """``size`` pairs drawn at random without replacement, each set of pairs equally likely (selection sampling)."""

    size: int
    seed: int
    reason = "not sampled"

    def of(self, pairs: Iterator[Item], total: int) -> Iterator[Item]:
        """Yields the drawn ones of ``total`` pairs: all of them if ``size`` is larger."""
        draw, wanted = random.Random(self.seed), min(self.size, total)
        for left, pair in zip(range(total, 0, -1), pairs, strict=True):
            if draw.random() * left < wanted:
                wanted -= 1
                yield pair


@dataclass(frozen=True)
class EveryNth:
    """Every n-th pair, or with ``others`` all but these."""

    n: int
    others: bool = False
    reason = "in the other split"

    def of(self, pairs: Iterator[Item], total: int) -> Iterator[Item]:
        """Yields the chosen pairs; ``total`` is ignored."""
        return (pair for number, pair in zip(count(1), pairs) if (number % self.n > 0) == self.others)


@dataclass(frozen=True)
class PairFilter:
    """A transform that keeps the pairs within the limits, and counts the others by the first limit they exceed.

    Args:
        max_length: maximum tokens of a side.
        ratio: maximum ratio of the tokens of the longer side to those of the shorter.
    """

    max_length: int
    ratio: float

    def reason_to_drop(self, source: str, target: str) -> str | None:
        """Returns why this pair is dropped, or None to keep it."""
        words = source.split(), target.split()
        short, long = sorted(map(len, words))
        if short == 0:
            return "empty"
        if long > self.max_length:
            return "too_long"
        if long / short > self.ratio:
            return "ratio"
        return "long_word" if max(map(len, chain(*words))) > MAX_WORD_LENGTH else None

    def __call__(self, *sides: Lines) -> tuple:
        """Returns the lines of the pairs to keep, with their tags, and the number of dropped pairs by reason."""
        reasons = [self.reason_to_drop(source, target) for source, target, *_ in zip(*sides, strict=True)]
        dropped = Counter({reason: reasons.count(reason) for reason in REASONS})
        is_kept = [reason is None for reason in reasons]
        return *(list(compress(lines, is_kept)) for lines in sides), dropped


def copied(*sides: Lines) -> tuple:
    """A transform that keeps all lines as they are."""
    return *sides, Counter()


def each_side(functions: Iterable[Callable[[Lines], Lines]]) -> Transform:
    """A transform that applies a function to the lines of each language, and keeps tags as they are."""
    functions = list(functions)

    def apply(*sides: Lines) -> tuple:
        texts = [function(lines) for function, lines in zip(functions, sides, strict=False)]
        return *texts, *sides[len(texts) :], Counter()

    return apply


def tagged(source: Lines, target: Lines, tags: Lines) -> tuple:
    """A transform that puts the token of its tag, if it has one, in front of each source line."""
    lines = [f"{tag_token(tag)} {line}" if tag else line for tag, line in zip(tags, source, strict=True)]
    return lines, target, tags, Counter()


def transform(
    step: str,
    function: Transform,
    *,
    inputs: list[TextFolder],
    output: Path,
    workers: int = 1,
    compress: bool = False,
    selection: Sample | EveryNth | None = None,
    refusal: str = "",
) -> History:
    """Applies a function to the pairs of all inputs and writes the result to a new text folder.

    Args:
        step: its name in the history.
        function: takes the lines of each language; returns those of the pairs that it keeps, in order, and last
            the number of dropped pairs by reason.
        inputs: text folders, concatenated.
        output: the folder to make.
        workers: number of processes.
        compress: whether to gzip the text.
        selection: chooses the pairs that the function gets; all by default.
        refusal: error message if no pair is left; if empty, this is no error.

    Returns:
        The history of the output.
    """
    before = History.joined([folder.history for folder in inputs])
    total = sum(folder.history.kept for folder in inputs)
    pairs = iter(progress((pair for folder in inputs for pair in folder.pairs()), step, "pairs", total))
    chunks = _chunks(selection.of(pairs, total) if selection else pairs)

    def on_chunk(pairs: Pair) -> tuple[Pair, int, Counter, list[int]]:
        texts = ([tidy(line) for line in side.decode().removesuffix("\n").split("\n")] for side in pairs)
        *sides, dropped = function(*texts)
        tokens = [sum(line.count(" ") + 1 for line in lines if line) for lines in sides]
        return tuple(encode_lines(lines, compress) for lines in sides), len(sides[0]), dropped, tokens

    languages = inputs[0].languages
    kept, dropped, tokens = 0, Counter[str](), Counter(dict.fromkeys(languages, 0))
    with writing_sides(TextFolder(output, languages), compress) as write:
        for sides, size, reasons, counts in map_in_order(on_chunk, chunks, workers):
            write(*sides)
            kept += size
            dropped.update(reasons)
            tokens.update(dict(zip(languages, counts, strict=True)))
    if refusal and not kept:
        raise UserError(refusal)
    if selection:
        dropped[selection.reason] = total - kept - dropped.total()
    history = before.then(step, total, dropped, kept, tokens=dict(tokens))
    history.write(output)
    return history


def _chunks(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Joins the lines of ``CHUNK`` pairs at a time, which pass between processes faster."""
    while chunk := list(islice(pairs, CHUNK)):
        yield tuple(map(b"".join, zip(*chunk, strict=True)))
