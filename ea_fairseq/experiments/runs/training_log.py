"""train.log: what fairseq-train logs as JSON, and the learning curves in it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path

from ea_fairseq.experiments.scoring.results import Point

NAME = "train.log"
LONGEST_LINE = 1 << 20
MOST_UPDATES = 10**12
MOST_POINTS = 10_000  # of a curve, more than a figure has pixels


def curves(folder: Path) -> tuple[list[Point], list[Point]]:
    """The curves of training and validation in a folder's log, all starts of the training joined; empty without a log.

    Where a resumed training repeats updates, those of the later start count. A validation has the time of the end of
    its epoch or, within an epoch, that of what was logged before it.
    """
    path = folder / NAME
    train: list[Point] = []
    valid: list[Point] = []
    seconds = 0.0
    clock = Clock()
    for entry in entries(path) if path.is_file() else ():
        if "loss" in entry and "num_updates" in entry:
            updates = int(entry["num_updates"])
            seconds = clock.since_the_beginning(entry.get("wall", seconds), before(updates, train, valid))
            extend(train, Point(updates, seconds, entry["loss"]))
            while valid and valid[-1].updates > updates:  # of what a later start repeats
                valid.pop()
        elif "valid_loss" in entry and "valid_num_updates" in entry:
            extend(valid, Point(int(entry["valid_num_updates"]), seconds, entry["valid_loss"], entry.get("valid_bleu")))
        elif "train_wall" in entry and valid and valid[-1].updates == entry.get("train_num_updates"):
            updates = valid[-1].updates
            seconds = clock.since_the_beginning(entry["train_wall"], before(updates, train, valid))
            valid[-1] = replace(valid[-1], seconds=seconds)
    return thinned(train), thinned(valid)


def thinned(curve: list[Point]) -> list[Point]:
    """Every so many-th point of a curve, counted back from its last, so that no more than ``MOST_POINTS`` are left."""
    step = max(1, -(-len(curve) // MOST_POINTS))
    return curve[::-step][::-1]


def length(folder: Path) -> tuple[int, int]:
    """The updates and epochs, the last perhaps not ended, of the training in a folder by the end of its log."""
    path, updates, epochs = folder / NAME, 0, 0
    for entry in entries(path) if path.is_file() else ():
        updates = int(entry.get("num_updates", entry.get("train_num_updates", updates)))
        if isfinite(epoch := entry.get("epoch", epochs)):
            epochs = int(epoch)
    return updates, epochs


@dataclass
class Clock:
    """Seconds since a training began, by the log of a fairseq that counts them from 0 in each start of it.

    Args:
        shown: what was logged last.
        began: when this start did, as far as the log counts from there.
    """

    shown: float = 0.0
    began: float = 0.0

    def since_the_beginning(self, shown: float, before: float) -> float:
        """Of what is logged now, where ``before`` is the time of what is kept of earlier updates."""
        if shown < self.shown:
            self.began = before if shown < before else 0.0
        self.shown = shown
        return self.began + shown


def before(updates: int, *kept: list[Point]) -> float:
    """The seconds of the last point of any curve with fewer updates, 0 where there is none."""
    return max(next((point.seconds for point in reversed(curve) if point.updates < updates), 0.0) for curve in kept)


def speeds(folder: Path) -> list[float]:
    """Target words per second, subwords counted, of each part of the training that a folder's log tells of."""
    found = [entry.get("wps", entry.get("train_wps")) for entry in entries(folder / NAME)]
    return [speed for speed in found if speed is not None]


def entries(path: Path) -> Iterator[dict[str, float]]:
    """The numbers in the lines of a log; a kill may have cut some short."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in iter(partial(lines.readline, LONGEST_LINE), ""):
            if entry := entry_of(line):
                yield entry


def entry_of(line: str) -> dict[str, float]:
    """The numbers in a line of a log that ends with a JSON object; none in another line."""
    try:
        entry = json.loads(line[line.index("{") :])
    except (ValueError, RecursionError):
        return {}
    return dict(numbers(entry)) if isinstance(entry, dict) else {}


def numbers(entry: dict[str, object]) -> Iterator[tuple[str, float]]:
    """The fields of an entry that are numbers, as which fairseq logs them in strings; counts are whole ones."""
    for name, value in entry.items():
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
            if not name.endswith("num_updates") or 0 <= number < MOST_UPDATES:
                yield name, number


def extend(curve: list[Point], point: Point) -> None:
    """Adds a point to a curve, in the place of those that were logged at the same or later updates."""
    while curve and curve[-1].updates >= point.updates:
        curve.pop()
    curve.append(point)
