"""For bad input, fairseq's commands print one sentence instead of a traceback.

fairseq's commands (``cli_main`` in ``fairseq_cli/*.py``) catch no errors, so a misspelt file or flag ends in a
traceback. If an error's message is written for the user, only the message is printed: for errors of this package, and
those that fairseq raises with a sentence.
"""

import sys
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from hydra.core.utils import JobReturn
from torch.multiprocessing import ProcessRaisedException

from ea_fairseq.errors import UserError

# Errors that fairseq raises with a sentence. Others, such as KeyError, have none.
WITH_SENTENCES = (AssertionError, ValueError, ImportError, NotImplementedError, Exception)
OF_FAIRSEQ = ("fairseq", "fairseq_cli")
OF_WORKERS = f"{UserError.__module__}.{UserError.__qualname__}: "  # in the traceback of a process that fairseq started
LONGEST = 500  # characters of a sentence
hydras_return_value = JobReturn.return_value.fget


def install_excepthook() -> None:
    """Sets ``sys.excepthook``: fairseq's commands end with :func:`message_for` an error, if there is one.

    Other programs that import this package, and all other errors, keep the hook that was there before.
    """
    print_traceback = sys.excepthook

    def print_message(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        message = message_for(error) if in_fairseq_command() else None
        if message is None:
            print_traceback(kind, error, traceback)
        else:
            print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)

    sys.excepthook = print_message
    JobReturn.return_value = JobReturn.return_value.getter(ended_job)


def ended_job(job: JobReturn) -> Any:
    """Returns the result of fairseq-hydra-train's training; hydra would print a traceback for its errors.

    Raises:
        SystemExit: with :func:`message_for` the error, if there is one.
    """
    message = message_for(job._return_value) if isinstance(job._return_value, Exception) else None
    if message is None or not in_fairseq_command():
        return hydras_return_value(job)
    raise SystemExit(f"{Path(sys.argv[0]).stem}: {message}")


def message_for(error: BaseException | None) -> str | None:
    """Returns the sentence for the user in an error or in its causes; None if the error needs a traceback.

    The chain of causes is searched because fairseq catches some errors and raises others in their place. An OSError,
    such as fairseq's for a missing data set, names its file, so its message serves. Of an error in a process that
    fairseq started for a GPU, there is only the text of the traceback.
    """
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, ProcessRaisedException):
        _, is_ours, message = str(error).rpartition(OF_WORKERS)
        return message.partition("\n\n")[0].strip() if is_ours else None
    first, seen = error, set[int]()
    while error is not None and id(error) not in seen:
        if isinstance(error, UserError):
            return str(error)
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return sentence_of_fairseq(first) if first is not None else None


def sentence_of_fairseq(error: BaseException) -> str | None:
    """Returns the message of an error that fairseq raised with a sentence, on one line; None for all others."""
    text = " ".join(str(error).split())
    if type(error) not in WITH_SENTENCES or " " not in text:
        return None
    *_, (frame, _) = walk_tb(error.__traceback__)
    if frame.f_globals.get("__name__", "").partition(".")[0] not in OF_FAIRSEQ:
        return None
    sentence = text.partition(": {'")[0][:LONGEST]
    cause = " ".join(str(error.__cause__ or error.__context__ or "").split())
    return f"{sentence.rstrip('.')} ({cause[:LONGEST]})" if cause else sentence


def in_fairseq_command() -> bool:
    """Whether this process runs ``fairseq-train`` or another command of fairseq, installed or as a file."""
    command = Path(sys.argv[0])
    return command.name.startswith("fairseq-") or command.parent.name == "fairseq_cli"
