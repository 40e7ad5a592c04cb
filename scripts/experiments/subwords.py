"""Which word a piece of a word belongs to."""

CONTINUED = "·"


def word_numbers(pieces: list[str], subword: str) -> list[int]:
    """The number, from 0, of the word of each piece; ``</s>`` is a word.

    Args:
        subword: how words were cut: ``bpe`` (``läu@@ ft``), ``sentencepiece`` (``▁läu ft``) or ``none``.
    """
    numbers, number = [], -1
    goes_on = False
    for piece in pieces:
        if subword == "sentencepiece":
            goes_on = number >= 0 and not piece.startswith("\u2581") and piece != "</s>"
        number += not goes_on
        numbers.append(number)
        goes_on = subword == "bpe" and piece.endswith("@@")
    return numbers


def labels(pieces: list[str], subword: str) -> list[str]:
    """The pieces as figures show them: one that goes on in the next ends in a raised dot."""
    numbers = word_numbers(pieces, subword)
    shown = pieces
    if subword == "bpe":
        shown = [piece.removesuffix("@@") for piece in pieces]
    elif subword == "sentencepiece":
        shown = [piece.removeprefix("\u2581") for piece in pieces]
    following = [*numbers[1:], None]
    return [text + CONTINUED * (number == after) for text, number, after in zip(shown, numbers, following, strict=True)]
