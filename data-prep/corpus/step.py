"""What the steps of a preparation have in common as commands: they end well, or with one plain sentence."""

import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool


class StepError(Exception):
    """A plain sentence that says what is wrong and what to do."""


def run(main: Callable[[], None]) -> None:
    """Run a step's main function; what can go wrong with data and disks becomes one sentence on stderr."""
    try:
        main()
    except StepError as error:
        sys.exit(f"prepare-corpus: {error}")
    except BrokenProcessPool:
        sys.exit(
            "prepare-corpus: a worker process was killed, often for memory: run again with fewer --workers."
        )
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        reason = error.strerror or error
        sys.exit(f"prepare-corpus: {reason}{place}: put that right, then run the same command again.")
