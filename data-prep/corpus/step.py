"""What the steps of a preparation have in common as commands: they end well, or with one plain sentence."""

import signal
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from text_lines import printable


class StepError(Exception):
    """A plain sentence that says what is wrong and what to do; it may name what others named."""


def run(main: Callable[[], None]) -> None:
    """Run a step's main function; what can go wrong with data and disks becomes one sentence on stderr."""
    name = Path(sys.argv[0]).stem
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except StepError as error:
        sys.exit(f"{name}: {printable(str(error))}")
    except BrokenProcessPool:
        sys.exit(f"{name}: a worker was killed, often for memory: run again with fewer --workers.")
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        what = printable(f"{error.strerror or error}{place}")
        sys.exit(f"{name}: {what}: put that right, then run the same command again.")
