"""Text as fairseq reads it: a dictionary, the numbers of words in a file .bin, and an .idx with where sentences start.

All is byte for byte what fairseq-preprocess writes, except that its index is wrong where it works in several processes
and a .bin has over 2 GiB; and it holds the lengths of all sentences in memory.
"""

import struct
from array import array
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary
from step import StepError
from word_counts import count_words, read_chunks
from workers import map_in_order

HEADER = struct.Struct("<9sQBQ")  # format, its version, fairseq's code for the type of numbers, sentences
FORMAT, VERSION = b"MMIDIDX\x00\x00", 1
SMALL, LARGE = (8, "H"), (9, "I")  # fairseq's code and Python's for two types of numbers
LIMIT = 65_500  # types of words, for small numbers
AT_ONCE = 1_000_000  # sentences

Encode = Callable[[bytes], tuple[bytes, bytes]]


def make_dictionary(files: list[Path], workers: int) -> Dictionary:
    """The words of plain or gzipped files, the most frequent first."""
    dictionary = Dictionary()
    for word, count in count_words(files, workers).items():
        dictionary.add_symbol(word, count)
    dictionary.finalize()
    return dictionary


def write_numbers(text: Path, sentences: int, dictionary: Dictionary, prefix: Path, workers: int) -> None:
    """Write PREFIX.bin and PREFIX.idx for a plain or gzipped file, which must have so many sentences."""
    numbers_file, index_file = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("bin", "idx"))
    code, kind = SMALL if len(dictionary) < LIMIT else LARGE
    chunks = read_chunks([text], "binarising")
    with numbers_file.open("wb") as numbers_out, index_file.open("wb") as index_out:
        index_out.write(HEADER.pack(FORMAT, VERSION, code, sentences))
        for numbers, lengths in map_in_order(partial(make_encoder, dictionary, kind), chunks, workers):
            numbers_out.write(numbers)
            index_out.write(lengths)
    if index_file.stat().st_size != HEADER.size + array("i").itemsize * sentences:
        raise StepError(f"{text} does not have the {sentences} lines it should have: remove it and run again.")
    append_starts(index_file, sentences, array(kind).itemsize)


def make_encoder(dictionary: Dictionary, kind: str) -> Encode:
    """A function from lines to the numbers of their words, each line with an end, and the lengths of the lines."""
    number_of, unknown, end = dictionary.indices.get, repeat(dictionary.unk()), dictionary.eos()

    def encode(text: bytes) -> tuple[bytes, bytes]:
        numbers, lengths = array(kind), array("i")
        for line in text.decode().removesuffix("\n").split("\n"):
            words = line.split()
            numbers.extend(map(number_of, words, unknown))
            numbers.append(end)
            lengths.append(len(words) + 1)
        return numbers.tobytes(), lengths.tobytes()

    return encode


def append_starts(index: Path, sentences: int, size: int) -> None:
    """Append to an index that has the lengths of sentences where each starts, in bytes; a number has `size` bytes."""
    lengths = np.memmap(index, np.int32, "r", HEADER.size, sentences)
    start = 0
    with index.open("ab") as file:
        for first in range(0, sentences, AT_ONCE):
            ends = start + size * np.cumsum(lengths[first : first + AT_ONCE], dtype=np.int64)
            file.write(np.concatenate(([start], ends[:-1])).tobytes())
            start = ends[-1]
