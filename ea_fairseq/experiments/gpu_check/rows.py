"""What a part of the check finds: a row for each thing that was tried."""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Row:
    """One thing that was tried.

    Args:
        name: what it is.
        found: figures, ready for a table, by what they are of.
        problem: what is wrong, a sentence without its full stop; empty if nothing is.
    """

    name: str
    found: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    def to_line(self) -> str:
        """The row as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> "Row":
        """What ``to_line`` wrote; raises ValueError for another line."""
        try:
            return cls(**json.loads(line))
        except TypeError as error:
            raise ValueError(str(error)) from None


@dataclass
class Part:
    """A part of the check.

    Args:
        state: ``done``, ``failed`` if its process failed, ``out of time``, or ``not begun``.
    """

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    state: str = "not begun"
    problem: str = ""
    seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether all of it was tried and nothing is wrong."""
        return self.state == "done" and not self.problem and not any(row.problem for row in self.rows)

    def to_dict(self) -> dict:
        """For JSON."""
        return asdict(self) | {"agrees": self.agrees}
