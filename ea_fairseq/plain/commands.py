"""Command lines whose errors are one sentence."""

import argparse
import logging
import math
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

from ea_fairseq.errors import UserError, printable

PROGRAM = "ea-fairseq"
SENTENCES = {  # argparse's words, and ours
    "unrecognized arguments:": "there is no option",
    ": expected one argument": " needs a value",
}


def run(main: Callable[[], None]) -> None:
    """Runs a command's main function; UserError, OSError and a killed worker end it with one sentence on stderr.

    A closed pipe ends it without a word, as a signal would.
    """
    name = Path(sys.argv[0]).stem
    try:
        main()
        if sys.stdout:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except UserError as error:
        sys.exit(f"{name}: {printable(str(error))}")
    except ModuleNotFoundError as error:
        sys.exit(
            f"{name}: this Python has no {error.name}: activate the environment that the project is installed in, such "
            "as with 'source .venv/bin/activate'."
        )
    except BrokenProcessPool:
        sys.exit(f"{name}: a worker was killed, often for memory: run again with fewer --workers.")
    except BrokenPipeError:  # whoever read our output has closed it: end quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        what = printable(f"{error.strerror or error}{place}")
        sys.exit(f"{name}: {what}: fix that, then run the same command again.")


def quiet() -> None:
    """Lets fairseq and PyTorch log no more than warnings, and silences Python's own warnings."""
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and whose help ends with an example.

    Args:
        command: its name after ``ea-fairseq``, such as ``translate``.
        description: for the help, shown as it is.
        example: an example command, or several on lines of their own.
    """

    def __init__(self, command: str, description: str, example: str, **options: Any) -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}",
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )

    def add_user_dir(self) -> None:
        """Adds ``--user-dir``, for models that only the user's own user-dir can build."""
        self.add_argument(
            "--user-dir",
            type=imported_user_dir,
            metavar="DIR",
            help="your own user-dir, if it defines the model's architecture",
        )

    def add_cpu(self) -> None:
        """Adds ``--cpu``."""
        self.add_argument("--cpu", action="store_true", help="use the CPU even if there is a GPU")

    def error(self, message: str) -> NoReturn:
        """Ends the program with one sentence, which names the flag."""
        for words, ours in SENTENCES.items():
            message = message.replace(words, ours)
        name = self.prog.removeprefix(PROGRAM).split()[0]
        sys.exit(f"{name}: {printable(message.removeprefix('argument '))}: see --help.")


def at_least(least: float, parse: Callable[[str], float] = int) -> Callable[[str], float]:
    """Returns a parser of finite numbers of at least ``least``."""

    def checked(text: str) -> float:
        try:
            if least <= (value := parse(text)) < math.inf:
                return value
        except ValueError:
            pass
        kind = "a whole number" if parse is int else "a number"
        raise argparse.ArgumentTypeError(f"needs {kind} of at least {least}, not '{text}'")

    return checked


def list_of(parse: Callable[[str], Any]) -> Callable[[str], tuple]:
    """Returns a parser of values between commas."""
    return lambda text: tuple(map(parse, text.split(",")))


def some_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Returns a parser of comma-separated names, such as ``encoder,cross``, which orders them as in ``known``."""

    def parse(text: str) -> tuple[str, ...]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no '{unknown[0]}': choose from {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return parse


def imported_user_dir(text: str) -> Path:
    """Imports a user-dir in addition to ours, so that fairseq knows its architectures; returns its folder."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    from fairseq.utils import import_user_module

    try:
        with redirect_stdout(sys.stderr):
            import_user_module(argparse.Namespace(user_dir=text))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}"
        raise argparse.ArgumentTypeError(
            f"{text} cannot be imported ({where}: {type(error).__name__}: {error})"
        ) from None
    return Path(text)
