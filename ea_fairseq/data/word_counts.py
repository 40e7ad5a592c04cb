"""Frequencies of the words in files of text."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from ea_fairseq.data.workers import map_in_order
from ea_fairseq.plain.text_lines import open_bytes, progress

CHUNK = 20_000  # lines


def read_lines(files: list[Path], label: str) -> Iterator[bytes]:
    """The lines of plain or gzipped files, with a progress bar called ``label``."""
    for path in files:
        with open_bytes(path) as file:
            yield from progress(file, f"{label} in {path.name}")


def read_chunks(files: list[Path], label: str) -> Iterator[bytes]:
    """The text of files, ``CHUNK`` lines at a time."""
    lines = read_lines(files, label)
    return iter(lambda: b"".join(islice(lines, CHUNK)), b"")


def chunk_counter() -> Callable[[bytes], Counter]:
    """A function that counts the words in a text of lines, separated by spaces."""
    return lambda text: Counter(word for line in text.decode().split("\n") for word in line.split(" ") if word)


def count_words(files: list[Path], workers: int) -> Counter:
    """The frequency of each word in plain or gzipped files, counted by several processes."""
    counts = Counter()
    for chunk in map_in_order(chunk_counter, read_chunks(files, "counting words"), workers):
        counts.update(chunk)
    return counts
