"""A dictionary that cannot be read is named in one sentence, with its line.

``Dictionary.add_from_file`` (fairseq/data/dictionary.py) raises errors that name no file and end in a traceback, or
blame the checkpoint that the dictionary belongs to. Here a FileError names file and line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary

from ea_fairseq.checkpoint.config import shown
from ea_fairseq.errors import FileError

OVERWRITE = "#fairseq:overwrite"  # at the end of a line: the word may have been there before
fairseq_add_from_file = Dictionary.add_from_file


def patch_dictionaries() -> None:
    """Replaces ``Dictionary.add_from_file`` by :func:`add_from_file`."""
    Dictionary.add_from_file = add_from_file


def add_from_file(self: Dictionary, f: Any) -> None:
    """Adds the words of a file as fairseq does.

    Args:
        f: a path, or a file that is open.

    Raises:
        FileError: naming the file of a path, and the line that is wrong.
        FileNotFoundError: if there is none.
    """
    known = set(self.indices)
    try:
        fairseq_add_from_file(self, f)
    except OSError:
        raise
    except Exception as error:
        flaw = None if not isinstance(f, str) else next(flaws(f, known), None)
        if flaw is None:
            raise
        raise FileError(f"the dictionary {f} {flaw}") from error


def flaws(path: str, known: set[str]) -> Iterator[str]:
    """What is wrong with a dictionary's file, the end of a sentence for each flaw; ``known`` are fairseq's symbols."""
    lines = dict.fromkeys(known, 0)
    try:
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n")[:-1], 1):
            try:
                word, count = line.rstrip().rsplit(" ", 1)
                if overwrites := count == OVERWRITE:
                    word, count = word.rsplit(" ", 1)
                int(count)
            except ValueError:
                yield f"needs a word, a space and a count in line {number}, not {shown(line)}"
                continue
            if word in lines and not overwrites:
                place = f"in line {lines[word]}" if lines[word] else "among fairseq's symbols"
                yield f"has the word {shown(word)} of line {number} {place} already"
            lines[word] = number
    except UnicodeDecodeError:
        yield "is not UTF-8"
