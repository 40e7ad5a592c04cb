"""The pieces of a T5: SentencePiece's, and after them the sentinels."""

from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.sentinels import SENTINELS

SPECIAL = {"<pad>": "<pad>", "</s>": "</s>", "<unk>": "<unk>"}  # T5's pieces 0, 1 and 2 are symbols of fairseq
LARGEST_MODEL = 32 << 20  # bytes
LANGUAGES = ("inputs", "targets")  # as T5 calls its two sides
OF_FAIRSEQ = ("<s>", *SPECIAL)


def read_pieces(path: Path) -> list[str]:
    """The pieces of a T5 in the order of its ids: those of its SentencePiece model, then the sentinels, the last first.

    Raises:
        UserError: naming the file, if it is not such a model.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        if path.stat().st_size > LARGEST_MODEL:
            raise UserError(f"{path} is larger than any vocabulary of T5.")
        processor = SentencePieceProcessor(model_file=str(path))
    except OSError as error:
        raise UserError(f"the vocabulary {path} cannot be read: {error.strerror or error}.") from None
    except RuntimeError:
        raise UserError(f"{path} is not a model of sentencepiece: give the spiece.model of a T5.") from None
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    if pieces[: len(SPECIAL)] != list(SPECIAL):
        raise UserError(f"{path} is not of a T5: its first pieces are {pieces[:3]}, and T5's are {list(SPECIAL)}.")
    seen = {"<s>", *SENTINELS}
    for number, piece in enumerate(pieces):
        if piece in seen or not piece or len(piece.split()) != 1 or not piece.isprintable():
            raise UserError(f"piece {number} of {path} has white space, is there twice or is a symbol of fairseq.")
        seen.add(piece)
    return [*pieces, *reversed(SENTINELS)]
