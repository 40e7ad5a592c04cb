"""The error for bad input: commands end with its message, one sentence, instead of a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Bad input that the user can put right; the message is one sentence that names the flag, file or parameter."""


class FileError(UserError):
    """Bad input in a file that the message names, whichever file it was read for."""


@contextmanager
def flags_refused() -> Iterator[None]:
    """Turns a ValueError of fairseq about flags, whose message begins with ``--``, into a UserError.

    Raises:
        UserError: with fairseq's message, without the configuration that some of them end with.
        ValueError: any other, as it is.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("--"):
            raise
        raise UserError(str(error).partition(": {")[0]) from error


def printable(text: str) -> str:
    """The text with characters that do not print escaped, such as \\x1b: it is safe to show in a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
