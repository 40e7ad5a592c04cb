"""The error for bad input: commands print its message, one sentence, instead of a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Bad input that the user can correct; the message is one sentence that names the flag, file or parameter."""


class FileError(UserError):
    """Bad input in a file; the message names the file, so callers need not add theirs."""


@contextmanager
def flags_refused() -> Iterator[None]:
    """Turns fairseq's ValueErrors about flags, whose messages begin with ``--``, into UserErrors.

    Raises:
        UserError: with fairseq's message, without the configuration at its end.
        ValueError: all others, unchanged.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("--"):
            raise
        raise UserError(str(error).partition(": {")[0]) from error


def printable(text: str) -> str:
    """Escapes unprintable characters of a text, such as \\x1b, so that a terminal can show it safely."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
