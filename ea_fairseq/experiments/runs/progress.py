"""How far trainings are: a line for each model, drawn in place on a terminal, one after the other in a log."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ea_fairseq.experiments.runs.training_log import NAME, entry_of

SECONDS = 1.0  # between two looks at the logs
BAR, GAP = 20, "  "
PARTS = 10  # of a training, a line each, in a log
UP, CLEAR = "\x1b[{}A", "\x1b[K"


@dataclass
class Progress:
    """The progress of a training, as its log tells it.

    Args:
        folder: of the training, by whose name the line calls it.
        updates: of the whole training.
        clock: seconds; by it the time that is left is estimated.
        done: updates so far.
        loss: label-smoothed, in bits per target token, of the last updates.
        bleu: of the last validation.
    """

    folder: Path
    updates: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    loss: float | None = None
    bleu: float | None = None
    _since: tuple[float, int] = (0.0, 0)  # seconds and updates when this start of the training was first seen
    _log: TextIO | None = None
    _unfinished: str = ""

    def look(self) -> None:
        """Read what the log has got since the last look."""
        before = self.done
        for entry in self._entries():
            if "loss" in entry and "num_updates" in entry:
                self.done, self.loss = int(entry["num_updates"]), entry["loss"]
            elif "valid_num_updates" in entry:
                self.done, self.bleu = int(entry["valid_num_updates"]), entry.get("valid_bleu")
        if not before or self.done < self._since[1]:
            self._since = self.clock(), self.done

    def _entries(self) -> Iterator[dict[str, float]]:
        path = self.folder / NAME
        if self._log is None and path.is_file():
            self._log = path.open(encoding="utf-8", errors="replace")
        for part in self._log or ():
            self._unfinished += part
            if part.endswith("\n"):
                line, self._unfinished = self._unfinished, ""
                yield entry_of(line)

    def left(self) -> float | None:
        """Seconds to the end, at the pace since the first look; None as long as nothing has moved."""
        since, first = self._since
        return (self.clock() - since) / (self.done - first) * (self.updates - self.done) if self.done > first else None

    def cells(self) -> list[str]:
        """Name, updates, loss, BLEU and time left, empty where they are not known."""
        left = self.left()
        time_left = "done" if self.done >= self.updates else "" if left is None else f"{clock_time(left)} left"
        return [
            self.folder.name,
            f"{self.done:,}/{self.updates:,} updates" if self.done else "starting",
            "" if self.loss is None else f"loss {self.loss:.2f}",
            "" if self.bleu is None else f"BLEU {self.bleu:.1f}",
            time_left,
        ]

    def bar(self, width: int) -> str:
        """A bar of so many characters, filled as far as the training is."""
        filled = width * min(self.done, self.updates) // self.updates
        return "█" * filled + "░" * (width - filled)


def clock_time(seconds: float) -> str:
    """As clocks show it: 0:07, 12:34, 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def lines(trainings: list[Progress], width: int) -> list[str]:
    """A line for each training, its cells below those of the others, with a bar where the width has room for one."""
    rows = [training.cells() for training in trainings]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = min(BAR, width - sum(widths) - len(GAP) * len(widths))
    if room > 0:
        rows = [[name, training.bar(room), *cells] for training, (name, *cells) in zip(trainings, rows, strict=True)]
        widths.insert(1, room)
    return [GAP.join(map(str.ljust, row, widths))[:width].rstrip() for row in rows]


def draw(trainings: list[Progress], terminal: TextIO) -> Iterator[None]:
    """With each step, the lines in the place of those before, none wider than the terminal."""
    up = ""
    while True:
        width = shutil.get_terminal_size().columns - 1
        terminal.write(up + "".join(f"{line}{CLEAR}\n" for line in lines(trainings, width)))
        terminal.flush()
        up = UP.format(len(trainings))
        yield


def log(trainings: list[Progress], file: TextIO) -> Iterator[None]:
    """With each step, the lines of the trainings that have come a part further."""
    parts = [0] * len(trainings)
    while True:
        for index, training in enumerate(trainings):
            part = PARTS * training.done // training.updates
            if part > parts[index]:
                parts[index] = part
                print(GAP.join(filter(None, training.cells())), file=file, flush=True)
        yield


def follow(trainings: list[Progress], shown: Iterator[None], ended: Callable[[float], bool]) -> None:
    """Show the trainings until they have ended.

    Args:
        ended: waits for so many seconds or the end, and says whether it is the end.
    """
    more = True
    while more:
        more = not ended(SECONDS)
        for training in trainings:
            training.look()
        next(shown)
