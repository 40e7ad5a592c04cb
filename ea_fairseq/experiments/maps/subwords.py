"""Finds the word to which each piece of a word belongs."""

from ea_fairseq.text.subwords import WORDPIECE

END = "</s>"
CONTINUED = "\u00b7"  # a raised dot


def word_numbers(pieces: list[str], subword: str) -> list[int]:
    """Returns the number, from 0, of each piece's word; ``</s>`` is a word of its own.

    Args:
        subword: the kind of subwords: ``bpe`` (``läu@@ ft``), ``sentencepiece`` (``\u2581läu ft``), ``wordpiece``
            or ``cased_wordpiece`` (``läu ##ft``) or ``none``.
    """
    numbers, number = [], -1
    for before, piece in zip([END, *pieces], pieces, strict=False):
        number += not is_continued(before, piece, subword)
        numbers.append(number)
    return numbers


def is_continued(before: str, piece: str, subword: str) -> bool:
    """Whether a word continues from one piece to the next."""
    if subword == "none" or END in (before, piece):
        return False
    if subword in WORDPIECE:
        return piece.startswith("##")
    return before.endswith("@@") if subword == "bpe" else not piece.startswith("\u2581")


def labels(pieces: list[str], subword: str) -> list[str]:
    """The pieces as figures show them; one that continues in the next ends in a raised dot."""
    shown = []
    for piece, after in zip(pieces, [*pieces[1:], END], strict=True):
        text = piece.removesuffix("@@") if subword == "bpe" else piece
        text = text.removeprefix("\u2581") if subword == "sentencepiece" else text
        text = text.removeprefix("##") if subword in WORDPIECE else text
        shown.append(text + CONTINUED * is_continued(piece, after, subword))
    return shown
