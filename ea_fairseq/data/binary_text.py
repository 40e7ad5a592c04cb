"""Text as fairseq reads it: a dictionary, token ids in a .bin, and an .idx with each sentence's length and offset.

The files are byte for byte those of fairseq-preprocess, which has two faults: with several workers its index is wrong
for a .bin of more than 2 GiB, and it holds the lengths of all sentences in memory.
"""

import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary

from ea_fairseq.data.parallel import count_words, map_in_order, read_chunks
from ea_fairseq.errors import UserError

HEADER = struct.Struct("<9sQBQ")  # magic, version, fairseq's code of the id's type, number of sentences
FORMAT, VERSION = b"MMIDIDX\x00\x00", 1
UINT16, UINT32 = (8, "H"), (9, "I")  # fairseq's code of a type, and Python's for an array
LIMIT = 65_500  # ids are uint32 for dictionaries of at least this size
AT_ONCE = 1_000_000  # sentences whose offsets are computed at a time

Encode = Callable[[bytes], tuple[bytes, bytes]]


def make_dictionary(files: list[Path], workers: int, threshold: int = 1, more: Iterable[str] = ()) -> Dictionary:
    """Makes fairseq's dictionary of the words in plain or gzipped files, the most frequent first.

    Args:
        threshold: how often a word must occur, at least.
        more: words to include in any case.
    """
    dictionary = Dictionary()
    counts = count_words(files, workers) | Counter(dict.fromkeys(more, threshold))
    for word, count in counts.items():
        dictionary.add_symbol(word, count)
    dictionary.finalize(threshold)
    return dictionary


def write_token_ids(text: Path, sentences: int, dictionary: Dictionary, prefix: Path, workers: int) -> None:
    """Writes PREFIX.bin and PREFIX.idx for a plain or gzipped file.

    Args:
        sentences: the number of lines that the file must have.
        workers: number of processes.

    Raises:
        UserError: if the file has a different number of lines.
    """
    ids_file, index_file = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("bin", "idx"))
    code, kind = UINT16 if len(dictionary) < LIMIT else UINT32
    chunks = read_chunks([text], "binarising")
    with ids_file.open("wb") as ids_out, index_file.open("wb") as index_out:
        index_out.write(HEADER.pack(FORMAT, VERSION, code, sentences))
        for ids, lengths in map_in_order(make_encoder(dictionary, kind), chunks, workers):
            ids_out.write(ids)
            index_out.write(lengths)
    if index_file.stat().st_size != HEADER.size + array("i").itemsize * sentences:
        raise UserError(
            f"{text} does not have the {sentences} lines it should have: remove {text.parent} and run again."
        )
    append_offsets(index_file, sentences, array(kind).itemsize)


def make_encoder(dictionary: Dictionary, kind: str) -> Encode:
    """Returns a function from lines of text to the bytes of their token ids, each line ending in ``</s>``, and lengths.

    Args:
        kind: type code of the ids, as in Python's array; lengths are int32.
    """
    id_of, unknown, end = dictionary.indices.get, repeat(dictionary.unk()), dictionary.eos()

    def encode(text: bytes) -> tuple[bytes, bytes]:
        ids, lengths = array(kind), array("i")
        for line in text.decode().removesuffix("\n").split("\n"):
            words = line.split()
            ids.extend(map(id_of, words, unknown))
            ids.append(end)
            lengths.append(len(words) + 1)
        return ids.tobytes(), lengths.tobytes()

    return encode


def append_offsets(index: Path, sentences: int, size: int) -> None:
    """Appends each sentence's offset in the .bin, in bytes, to an index that has the sentences' lengths.

    Args:
        size: bytes of a token id.
    """
    lengths = np.memmap(index, np.int32, "r", HEADER.size, sentences)
    start = 0
    with index.open("ab") as file:
        for first in range(0, sentences, AT_ONCE):
            ends = start + size * np.cumsum(lengths[first : first + AT_ONCE], dtype=np.int64)
            file.write(np.concatenate(([start], ends[:-1])).tobytes())
            start = ends[-1]
