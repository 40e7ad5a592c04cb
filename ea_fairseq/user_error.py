"""Bad input ends a command with one sentence instead of a traceback."""

import sys
from contextlib import contextmanager
from pathlib import Path


class UserError(ValueError):
    """What the user can mend: its message is one sentence that names the flag, the file or the parameter."""


@contextmanager
def flags_refused():
    """Makes a UserError of what fairseq says of flags, which begins with a flag; other errors pass as they are."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("--"):
            raise
        raise UserError(str(error).partition(": {")[0]) from error


def sentence_for(error: BaseException | None) -> str | None:
    """The sentence to end a command with, or None where only a traceback tells what happened.

    fairseq catches some of our errors and raises others in their place, so those behind an error count, too. An
    OSError, such as fairseq's for a missing data set, names its file already.
    """
    if isinstance(error, OSError):
        return str(error)
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, UserError):
            return str(error)
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def in_fairseq_command() -> bool:
    command = Path(sys.argv[0])
    return command.name.startswith("fairseq-") or command.parent.name == "fairseq_cli"


def show_sentences():
    """Lets fairseq's commands, and no other programs, end with :func:`sentence_for` where there is one."""
    show_traceback = sys.excepthook

    def show(kind, error, traceback):
        sentence = sentence_for(error) if in_fairseq_command() else None
        if sentence is None:
            show_traceback(kind, error, traceback)
        else:
            print(f"{Path(sys.argv[0]).stem}: {sentence}", file=sys.stderr)

    sys.excepthook = show
