"""train.log: reads learning curves, speed and progress from what fairseq-train logs as JSON."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TextIO

from ea_fairseq.experiments.scoring.results import Point

NAME = "train.log"
LONGEST_LINE = 1 << 20
MOST_UPDATES = 10**12
MOST_POINTS = 10_000  # in a curve; more than a figure has pixels
PARTS = 10  # of a training, each shown as a line if there is no terminal
BAR = "{desc}  {bar:20}  {n_fmt}/{total_fmt} updates{postfix}, {remaining} left"


def curves(folder: Path) -> tuple[list[Point], list[Point]]:
    """Returns the training and validation curves in a folder's log, over all starts; empty without a log.

    If a resumed training repeats updates, the later start counts. The time of a validation is the end of its epoch or,
    within an epoch, the time of the log entry before it. Some versions of fairseq count seconds from 0 in each start;
    a later start then goes on from the last point before it.
    """
    train: list[Point] = []
    valid: list[Point] = []
    seconds = logged = began = 0.0

    def since_the_beginning(wall: float, updates: int) -> float:
        nonlocal logged, began
        if wall < logged:
            earlier = (point.seconds for point in train + valid if point.updates < updates)
            before = max(earlier, default=0.0)
            began = before if wall < before else 0.0
        logged = wall
        return began + wall

    for entry in entries(folder):
        if "loss" in entry and "num_updates" in entry:
            updates = int(entry["num_updates"])
            seconds = since_the_beginning(entry.get("wall", seconds), updates)
            forget(train, updates)
            forget(valid, updates + 1)  # points that a later start repeats
            train.append(Point(updates, seconds, entry["loss"]))
        elif "valid_loss" in entry and "valid_num_updates" in entry:
            updates = int(entry["valid_num_updates"])
            forget(valid, updates)
            valid.append(Point(updates, seconds, entry["valid_loss"], entry.get("valid_bleu")))
        elif "train_wall" in entry and valid and valid[-1].updates == entry.get("train_num_updates"):
            seconds = since_the_beginning(entry["train_wall"], valid[-1].updates)
            valid[-1] = replace(valid[-1], seconds=seconds)
    return thinned(train), thinned(valid)


def forget(curve: list[Point], updates: int) -> None:
    """Removes the points of a curve from this number of updates on."""
    while curve and curve[-1].updates >= updates:
        curve.pop()


def thinned(curve: list[Point]) -> list[Point]:
    """Thins a curve evenly to at most ``MOST_POINTS`` points, of which the last is kept."""
    step = max(1, -(-len(curve) // MOST_POINTS))
    return curve[::-step][::-1]


def length(folder: Path) -> tuple[int, int]:
    """Returns the updates and epochs at the end of a folder's log; the last epoch may be unfinished."""
    updates, epochs = 0, 0
    for entry in entries(folder):
        updates = int(entry.get("num_updates", entry.get("train_num_updates", updates)))
        if isfinite(epoch := entry.get("epoch", epochs)):
            epochs = int(epoch)
    return updates, epochs


def speeds(folder: Path) -> list[float]:
    """Returns target words (subwords) per second for each part of the training in a folder's log."""
    found = [entry.get("wps", entry.get("train_wps")) for entry in entries(folder)]
    return [speed for speed in found if speed is not None]


def entries(folder: Path) -> Iterator[dict[str, float]]:
    """Yields the numbers of each line in a folder's log that ends with a JSON object; a kill may cut lines short."""
    path = folder / NAME
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in iter(partial(lines.readline, LONGEST_LINE), ""):
            try:
                entry = json.loads(line[line.index("{") :])
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield dict(numbers(entry))


def numbers(entry: dict[str, object]) -> Iterator[tuple[str, float]]:
    """Yields the numeric fields of an entry, which fairseq logs as strings, without impossible numbers of updates."""
    for name, value in entry.items():
        if isinstance(value, str | int | float):
            with suppress(ValueError, OverflowError):
                number = float(value)
                if not name.endswith("num_updates") or 0 <= number < MOST_UPDATES:
                    yield name, number


class Progress:
    """Shows the progress of a training from its log: a bar on a terminal, otherwise a line for each tenth.

    Args:
        folder: of the training; its name is shown.
        updates: of the whole training.
        place: position of its bar among those of other trainings, from 0.
        file: where it is shown.
    """

    def __init__(self, folder: Path, updates: int, place: int, file: TextIO) -> None:
        from tqdm import tqdm

        self.folder, self.updates, self.file = folder, updates, file
        self.done, self.facts = 0, dict[str, str]()
        options = {"bar_format": BAR, "smoothing": 0, "dynamic_ncols": True, "disable": not file.isatty()}
        self.bar = tqdm(desc=folder.name, total=updates, position=place, file=file, **options)

    def look(self) -> None:
        """Reads the log and shows what is new in it."""
        before = self.done
        for entry in entries(self.folder):
            if "loss" in entry and "num_updates" in entry:
                self.done, self.facts["loss"] = int(entry["num_updates"]), f"{entry['loss']:.2f}"
            elif "valid_num_updates" in entry:
                self.done = int(entry["valid_num_updates"])
                if "valid_bleu" in entry:
                    self.facts["BLEU"] = f"{entry['valid_bleu']:.1f}"
        if self.bar.disable:
            if PARTS * self.done // self.updates > PARTS * before // self.updates:
                print(self.line(), file=self.file, flush=True)
            return
        if not before:
            self.bar.initial = self.done  # a resumed training is timed from where it goes on
        self.bar.n = self.done
        self.bar.set_postfix(self.facts)

    def line(self) -> str:
        """Returns a line with name, updates, loss and BLEU as far as known, and whether the training is done."""
        cells = [self.folder.name, f"{self.done:,}/{self.updates:,} updates"]
        cells += [f"{name} {value}" for name, value in self.facts.items()]
        return "  ".join([*cells, *["done"] * (self.done >= self.updates)])

    def close(self) -> None:
        """Leaves the bar as it is."""
        self.bar.close()
