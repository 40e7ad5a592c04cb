"""The history of a text: its sources and the steps of its preparation, with counts."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class History:
    """The sources of a text, and for each step the pairs it read, those it dropped by reason, and those it kept."""

    sources: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "History":
        """Reads a history.json."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def joined(cls, histories: list["History"]) -> "History":
        """The history of the concatenation of several texts."""
        sources = [source for history in histories for source in history.sources]
        return cls(sources, [step for history in histories for step in history.steps])

    def then(self, step: str, read: int, dropped: Counter, kept: int, **more: object) -> "History":
        """A copy of this history with one more step; ``more`` are further facts of that step."""
        counts = {"step": step, "read": read, "dropped": dict(dropped), "kept": kept}
        return History(self.sources, [*self.steps, counts | more])

    @property
    def kept(self) -> int:
        """The pairs that the last step kept."""
        return self.steps[-1]["kept"]

    def write(self, path: Path) -> None:
        """Writes a history.json."""
        path.write_text(json.dumps(vars(self), indent=2) + "\n", encoding="utf-8")
