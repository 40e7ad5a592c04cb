"""train.log: what fairseq-train logs as JSON, the learning curves in it, and how far the training is."""

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
MOST_POINTS = 10_000  # of a curve, more than a figure has pixels
PARTS = 10  # of a training, a line each, in a log
BAR = "{desc}  {bar:20}  {n_fmt}/{total_fmt} updates{postfix}, {remaining} left"


def curves(folder: Path) -> tuple[list[Point], list[Point]]:
    """The curves of training and validation in a folder's log, all starts of the training joined; empty without a log.

    Where a resumed training repeats updates, those of the later start count. A validation has the time of the end of
    its epoch or, within an epoch, that of what was logged before it. Some versions of fairseq count seconds from 0 in
    each start: those of a later start are counted on from the last point before it.
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
            forget(valid, updates + 1)  # of what a later start repeats
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
    """Removes the points of a curve that have so many updates or more."""
    while curve and curve[-1].updates >= updates:
        curve.pop()


def thinned(curve: list[Point]) -> list[Point]:
    """Every so many-th point of a curve, counted back from its last, so that no more than ``MOST_POINTS`` are left."""
    step = max(1, -(-len(curve) // MOST_POINTS))
    return curve[::-step][::-1]


def length(folder: Path) -> tuple[int, int]:
    """The updates and epochs, the last perhaps not ended, of the training in a folder by the end of its log."""
    updates, epochs = 0, 0
    for entry in entries(folder):
        updates = int(entry.get("num_updates", entry.get("train_num_updates", updates)))
        if isfinite(epoch := entry.get("epoch", epochs)):
            epochs = int(epoch)
    return updates, epochs


def speeds(folder: Path) -> list[float]:
    """Target words per second, subwords counted, of each part of the training in a folder's log."""
    found = [entry.get("wps", entry.get("train_wps")) for entry in entries(folder)]
    return [speed for speed in found if speed is not None]


def entries(folder: Path) -> Iterator[dict[str, float]]:
    """The numbers in the lines of a folder's log that end with a JSON object; a kill may have cut some short."""
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
    """The fields of an entry that are numbers, as which fairseq logs them in strings; counts are whole ones."""
    for name, value in entry.items():
        if isinstance(value, str | int | float):
            with suppress(ValueError, OverflowError):
                number = float(value)
                if not name.endswith("num_updates") or 0 <= number < MOST_UPDATES:
                    yield name, number


class Progress:
    """The progress of a training by its log: a bar on a terminal, elsewhere a line for each tenth of the training.

    Args:
        folder: of the training, whose name is shown.
        updates: of the whole training.
        place: of its bar among those of other trainings, from 0.
        file: where it is shown.
    """

    def __init__(self, folder: Path, updates: int, place: int, file: TextIO) -> None:
        from tqdm import tqdm

        self.folder, self.updates, self.file = folder, updates, file
        self.done, self.facts = 0, dict[str, str]()
        options = {"bar_format": BAR, "smoothing": 0, "dynamic_ncols": True, "disable": not file.isatty()}
        self.bar = tqdm(desc=folder.name, total=updates, position=place, file=file, **options)

    def look(self) -> None:
        """Reads the log, and shows what is new in it."""
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
        """Name, updates, loss and BLEU as far as they are known, and whether all is trained."""
        cells = [self.folder.name, f"{self.done:,}/{self.updates:,} updates"]
        cells += [f"{name} {value}" for name, value in self.facts.items()]
        return "  ".join([*cells, *["done"] * (self.done >= self.updates)])

    def close(self) -> None:
        """Leaves the bar as it is."""
        self.bar.close()
