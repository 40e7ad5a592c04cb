"""What has happened to text so far."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class History:
    """Where text comes from, and for each step how many pairs it read, dropped for which reasons, and kept."""

    sources: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "History":
        """The history in a file."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def joined(cls, histories: list["History"]) -> "History":
        """The history of texts that are joined."""
        sources = [source for history in histories for source in history.sources]
        return cls(sources, [step for history in histories for step in history.steps])

    def then(self, step: str, read: int, dropped: Counter, kept: int, **more: object) -> "History":
        """This history and one more step."""
        counts = {"step": step, "read": read, "dropped": dict(dropped), "kept": kept}
        return History(self.sources, [*self.steps, counts | more])

    @property
    def kept(self) -> int:
        """The pairs that the last step kept."""
        return self.steps[-1]["kept"]

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps(vars(self), indent=2) + "\n", encoding="utf-8")
