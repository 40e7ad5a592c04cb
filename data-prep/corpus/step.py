"""What the steps of a preparation have in common as commands: they end well, or with one plain sentence."""

import signal
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from text_lines import printable


class StepError(Exception):
    """Bad input or data that the user can put right; the message is one sentence that says how.

    It may quote names from files, so it is escaped before it is printed.
    """


def run(main: Callable[[], None]) -> None:
    """Run a command's main function; StepError, OSError and a killed worker end it with one sentence on stderr."""
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
