"""How far trainings are: a bar for each on a terminal, in a log a line for each tenth of a training."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from ea_fairseq.experiments.runs.training_log import NAME, entry_of

PARTS = 10  # of a training, a line each, in a log
BAR = "{desc}  {bar:20}  {n_fmt}/{total_fmt} updates{postfix}, {remaining} left"


class Progress:
    """The progress of a training, as its log tells it.

    Args:
        folder: of the training, by whose name it is called.
        updates: of the whole training.
        place: of its bar among those of other trainings, from 0.
        file: where it is told.
    """

    def __init__(self, folder: Path, updates: int, place: int, file: TextIO):
        self.folder, self.updates, self.file = folder, updates, file
        self.done, self.facts = 0, {}
        self._log: TextIO | None = None
        self._unfinished = ""
        self._bar = tqdm(
            desc=folder.name,
            total=updates,
            position=place,
            file=file,
            bar_format=BAR,
            smoothing=0,
            dynamic_ncols=True,
            disable=not file.isatty(),
        )

    def look(self) -> None:
        """Reads what the log has got since the last look, and tells it."""
        before = self.done
        for entry in self._entries():
            if "loss" in entry and "num_updates" in entry:
                self.done, self.facts["loss"] = int(entry["num_updates"]), f"{entry['loss']:.2f}"
            elif "valid_num_updates" in entry:
                self.done = int(entry["valid_num_updates"])
                if "valid_bleu" in entry:
                    self.facts["BLEU"] = f"{entry['valid_bleu']:.1f}"
        if self._bar.disable:
            if PARTS * self.done // self.updates > PARTS * before // self.updates:
                print(self.line(), file=self.file, flush=True)
            return
        if not before:
            self._bar.initial = self.done  # a resumed training is timed from where it goes on
        self._bar.n = self.done
        self._bar.set_postfix(self.facts)

    def _entries(self) -> Iterator[dict[str, float]]:
        path = self.folder / NAME
        if self._log is None and path.is_file():
            self._log = path.open(encoding="utf-8", errors="replace")
        for part in self._log or ():
            self._unfinished += part
            if part.endswith("\n"):
                line, self._unfinished = self._unfinished, ""
                yield entry_of(line)

    def line(self) -> str:
        """Name, updates, loss and BLEU as far as they are known, and whether all is trained."""
        cells = [self.folder.name, f"{self.done:,}/{self.updates:,} updates"]
        cells += [f"{name} {value}" for name, value in self.facts.items()]
        return "  ".join([*cells, *["done"] * (self.done >= self.updates)])

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.close()
