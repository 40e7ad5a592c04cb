"""Segments tokens into subwords, and joins these again: BPE, sentencepiece and WordPiece."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ea_fairseq.errors import FileError
from ea_fairseq.plain.sentinels import SENTINELS

CACHE_SIZE = 200_000  # words whose segments a process keeps
WORDPIECE = ("wordpiece", "cased_wordpiece")
T5 = "t5"  # sentencepiece, with the sentinels as pieces of their own
PIECES = ("sentencepiece", T5)
VERSION = re.compile(r"#version: 0\.[12]\r?")
SENTINEL = re.compile(f"({'|'.join(SENTINELS)})")
MERGE = re.compile(r"[^ \r\n]+ [^ \r\n]+\r?")


class Segments(dict):
    """A cache of the BPE segments of words; emptied when it is full, so that memory does not grow with the corpus."""

    def __init__(self, codes: IO[str]):
        """Takes BPE codes, one merge per line, which :func:`read_codes` has checked."""
        from subword_nmt.apply_bpe import BPE

        self.bpe = BPE(codes)

    def __missing__(self, word: str) -> str:
        """The segments of a word that is not cached, separated by spaces."""
        if len(self) >= CACHE_SIZE:
            self.clear()
            self.bpe.cache.clear()
        self[word] = self.bpe.segment(word)
        return self[word]


def make_segmenter(kind: str, model: Path) -> Callable[[str], str]:
    """Returns a function that segments a line of words separated by single spaces or, for WordPiece, of raw text.

    Raises:
        UserError: if the file is not a model of this kind.
    """
    if kind == "bpe":
        segments = Segments(io.StringIO(read_codes(model), newline="\n"))
        return lambda line: " ".join(map(segments.__getitem__, line.split(" ")))
    if kind in WORDPIECE:
        from ea_fairseq.subwords.wordpiece import WordPiece, WordPieceConfig

        config = WordPieceConfig(wordpiece_vocab=str(model), wordpiece_cased=kind == "cased_wordpiece")
        return WordPiece(config).encode
    from sentencepiece import SentencePieceProcessor

    try:
        processor = SentencePieceProcessor(model_file=str(model))
    except RuntimeError:
        raise FileError(f"{model} is not a model of sentencepiece: copy it from the folder of the data.") from None
    if kind == T5:
        return lambda line: " ".join(
            piece
            for part in SENTINEL.split(line)
            for piece in ([part] if part in SENTINELS else processor.encode(part, out_type=str))
        )
    return lambda line: " ".join(processor.encode(line, out_type=str))


def join(kind: str, pieces: str) -> str:
    """Joins pieces to words, both separated by spaces."""
    if kind == "bpe":
        return f"{pieces} ".replace("@@ ", "").rstrip()
    if kind in PIECES:
        return pieces.replace(" ", "").replace("\u2581", " ").strip()
    return f" {pieces}".replace(" ##", "").removeprefix(" ")


def read_codes(model: Path) -> str:
    """Reads BPE codes and checks each line, because subword-nmt would exit at a line that is not a merge.

    Codes without a version line would segment differently than they were learned: subword-nmt takes them for version
    0.1.

    Raises:
        UserError: naming the line.
    """
    try:
        codes = model.read_bytes().decode("utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise FileError(f"{model} is not UTF-8: copy it from the folder of the data.") from None
    lines = codes.split("\n")
    if not VERSION.fullmatch(lines[0]):
        raise FileError(f"line 1 of {model} is not '#version: 0.2' or 0.1, as in subword-nmt's codes: put it back.")
    for number, line in enumerate(lines[1:] or [""], 2):
        if not MERGE.fullmatch(line):
            raise FileError(f"line {number} of {model} is not a merge of BPE: copy it from the folder of the data.")
    return codes
