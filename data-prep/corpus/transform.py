"""From text folders to a text folder, by a function of sentence pairs."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from history import History
from selections import Selection
from text_folder import Pair, TextFolder, TextWriter, packed
from text_lines import progress, tidy
from workers import map_in_order

CHUNK = 5000  # pairs

Lines = list[str]
Transform = Callable[[Lines, Lines], tuple[Lines, Lines, Counter]]


class Chunk(NamedTuple):
    """What a transform made of some pairs."""

    source: bytes
    target: bytes
    tokens: tuple[int, int]
    read: int
    dropped: Counter
    kept: int


def transform(
    step: str,
    make: Callable[[], Transform],
    *,
    inputs: list[TextFolder],
    output: Path,
    workers: int = 1,
    compress: bool = False,
    selection: Selection | None = None,
) -> History:
    """Write to `output` what a transform makes of the pairs of all inputs, and return its history.

    A transform takes the lines of both languages and gives those of the pairs it keeps, in order, with the numbers of
    those that it drops, by reason. `make` makes it once in each process.
    """
    before = History.joined([folder.history for folder in inputs])
    total = sum(folder.history.kept for folder in inputs)
    pairs = (pair for folder in inputs for pair in folder.pairs())
    pairs = progress(pairs, step, "pairs", total)
    chunks = _chunks(selection.of(pairs, total) if selection else iter(pairs))
    languages = inputs[0].languages
    read, dropped, kept, tokens = 0, Counter(), 0, Counter(dict.fromkeys(languages, 0))
    with TextWriter(TextFolder(output, languages), compress) as writer:
        for chunk in map_in_order(partial(_on_chunks, make, compress), chunks, workers):
            writer.write(chunk.source, chunk.target)
            read, kept = read + chunk.read, kept + chunk.kept
            dropped.update(chunk.dropped)
            tokens.update(dict(zip(languages, chunk.tokens, strict=True)))
        if selection:
            dropped[selection.reason] = total - read
        history = before.then(step, total, dropped, kept, tokens=dict(tokens))
        writer.finish(history)
    return history


def _chunks(pairs: Iterator[Pair]) -> Iterator[Pair]:
    while chunk := list(islice(pairs, CHUNK)):
        source, target = zip(*chunk, strict=True)
        yield b"".join(source), b"".join(target)


def _on_chunks(make: Callable[[], Transform], compress: bool) -> Callable[[Pair], Chunk]:
    function = make()

    def on_chunk(pairs: Pair) -> Chunk:
        before = [[tidy(line) for line in side.decode().removesuffix("\n").split("\n")] for side in pairs]
        source, target, dropped = function(*before)
        tokens = _count_tokens(source), _count_tokens(target)
        return Chunk(packed(source, compress), packed(target, compress), tokens, len(before[0]), dropped, len(source))

    return on_chunk


def _count_tokens(lines: Lines) -> int:
    return sum(line.count(" ") + 1 for line in lines if line)
