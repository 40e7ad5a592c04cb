"""BERT's WordPiece: words in lower case without accents, each cut into the longest pieces that a vocabulary has.

Devlin et al., NAACL 2019, by the rules of their published code. As there, ``[MASK]`` and the other symbols are ordinary
text if a raw text has them: a bracket, a word, a bracket.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from ea_fairseq.errors import UserError

SYMBOLS = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}  # BERT's, fairseq's
INSIDE = "##"  # before each piece of a word but the first
LONGEST_WORD = 200  # characters; a longer one is unknown
LARGEST_VOCABULARY = 32 << 20  # bytes
CACHED_WORDS = 100_000
PIECE = re.compile(r"[^\x00-\x20\x7f]+")
CHINESE = (  # blocks of characters that are words by themselves
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


@dataclass
class WordPieceConfig(FairseqDataclass):
    """The flags of ``--bpe wordpiece``."""

    wordpiece_vocab: str = field(default="", metadata={"help": "BERT's vocab.txt, one piece per line"})
    wordpiece_cased: bool = field(default=False, metadata={"help": "keep case and accents"})


@register_bpe("wordpiece", dataclass=WordPieceConfig)
class WordPiece:
    """BERT's subwords, as symbols of a dictionary of fairseq: a word that pieces cannot form is ``<unk>``."""

    def __init__(self, cfg: WordPieceConfig):
        """
        Raises:
            UserError: if the vocabulary is missing or invalid.
        """
        if not cfg.wordpiece_vocab:
            raise UserError("--bpe wordpiece needs --wordpiece-vocab, the file of BERT's vocabulary")
        self.pieces = frozenset(read_vocabulary(Path(cfg.wordpiece_vocab))) - SYMBOLS.keys()
        self.cased = cfg.wordpiece_cased
        self.split = lru_cache(CACHED_WORDS)(self._split)

    def encode(self, x: str) -> str:
        """The pieces of a raw text, separated by spaces."""
        return " ".join(self.split(word) for word in words(x, self.cased))

    def decode(self, x: str) -> str:
        """Joins pieces to words, separated by spaces."""
        return f" {x}".replace(f" {INSIDE}", "").removeprefix(" ")

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether a word starts with this symbol, for ``--mask-whole-words``."""
        return not x.startswith(INSIDE)

    def _split(self, word: str) -> str:
        """The pieces of a word, each the longest that fits from the left."""
        found, start = [], 0
        while start < len(word) <= LONGEST_WORD:
            before = INSIDE if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if before + word[start:end] in self.pieces), None)
            if end is None:
                break
            found.append(before + word[start:end])
            start = end
        return " ".join(found) if start == len(word) else SYMBOLS["[UNK]"]


def read_vocabulary(path: Path) -> list[str]:
    """Reads the pieces of a vocabulary, one per line, in its order.

    Raises:
        UserError: naming the file, and the line that is wrong.
    """
    try:
        if path.stat().st_size > LARGEST_VOCABULARY:
            raise UserError(f"{path} is larger than any vocabulary of WordPiece.")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"the vocabulary {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8, as a vocabulary of WordPiece is.") from None
    pieces = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    lines: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if not PIECE.fullmatch(piece):
            raise UserError(f"line {number} of {path} is no piece of a word: it is empty or has white space.")
        if piece in lines:
            raise UserError(f"lines {lines[piece]} and {number} of {path} are the same piece.")
        if piece in SYMBOLS.values():
            raise UserError(f"line {number} of {path} is {piece}, a symbol of fairseq that BERT does not have.")
        lines[piece] = number
    missing = [symbol for symbol in SYMBOLS if symbol not in lines]
    if missing:
        raise UserError(f"{path} is no vocabulary of BERT: it has no {missing[0]}.")
    return pieces


def words(text: str, cased: bool = False) -> Iterator[str]:
    """Yields words, marks of punctuation and Chinese characters of a raw text, in lower case unless ``cased``."""
    for word in "".join(map(spaced, text)).split():
        if not cased:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        yield from "".join(f" {char} " if is_punctuation(char) else char for char in word).split()


def spaced(char: str) -> str:
    """Returns what replaces a character: a space, nothing, or itself, between spaces if it is Chinese.

    Characters that this Python's Unicode does not know and private ones are kept: only control characters vanish.
    """
    if char in "\t\n\r":
        return " "
    if char == "\N{REPLACEMENT CHARACTER}" or unicodedata.category(char) in ("Cc", "Cf"):
        return ""
    return f" {char} " if any(first <= ord(char) <= last for first, last in CHINESE) else char


def is_punctuation(char: str) -> bool:
    """Whether BERT treats a character as punctuation: Unicode's punctuation and all ASCII symbols."""
    return unicodedata.category(char).startswith("P") or (char.isascii() and char.isprintable() and not char.isalnum())
