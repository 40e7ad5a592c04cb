"""Command lines whose errors are one sentence."""

import argparse
import math
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path


class Parser(argparse.ArgumentParser):
    """A parser that ends with one sentence, and whose help ends with an example.

    Args:
        command: what the user types to run the script, such as ``bash scripts/translate.sh``.
        description, example: for the help, shown as they are.
    """

    def __init__(self, command: str, description: str, example: str, **options):
        super().__init__(
            prog=command,
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )

    def add_user_dir(self) -> None:
        """Adds ``--user-dir``, for models that only a user-dir of one's own can build."""
        self.add_argument(
            "--user-dir",
            type=imported_user_dir,
            metavar="DIR",
            help="a user-dir of your own, where it brings the model's architecture",
        )

    def error(self, message: str):
        """Ends the program with one sentence, which names the flag."""
        name = self.prog.split()[-1].rpartition("/")[2].partition(".")[0]
        sys.exit(f"{name}: {message.removeprefix('argument ')}: see --help.")


def at_least(least: float, parse: type = int) -> Callable[[str], float]:
    """A parser of finite numbers of at least ``least``."""

    def checked(text: str) -> float:
        try:
            if least <= (value := parse(text)) < math.inf:
                return value
        except ValueError:
            pass
        kind = "a whole number" if parse is int else "a number"
        raise argparse.ArgumentTypeError(f"needs {kind} of at least {least}, not '{text}'")

    return checked


def imported_user_dir(text: str) -> Path:
    """The folder of a user-dir, which is imported beside ours: fairseq knows its architectures from now on."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    import ea_fairseq  # noqa: F401

    # isort: split
    from fairseq.utils import import_user_module  # after ea_fairseq, which imports it faster

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
