"""Command lines whose errors are one sentence."""

import argparse
import math
import sys
from collections.abc import Callable


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
