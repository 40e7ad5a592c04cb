"""Results of a check: parts, each with a row for each thing that was tried, and a page of all parts."""

import json
from dataclasses import asdict, dataclass, field

from ea_fairseq.experiments.tables import Table


@dataclass(frozen=True)
class Row:
    """One thing that was tried.

    Args:
        name: what was tried.
        found: figures as text, by the names of their columns.
        problem: what is wrong, a sentence without its full stop; empty if nothing is wrong.
    """

    name: str
    found: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    def to_line(self) -> str:
        """The row as one line of JSON."""
        return json.dumps(asdict(self))


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
        """Whether the part is complete and nothing is wrong."""
        return self.state == "done" and not self.problem and not any(row.problem for row in self.rows)

    def markdown(self) -> str:
        """The title, a table with a column for each name in any row, and what is wrong."""
        took = "" if self.state == "not begun" else f", {self.seconds:.0f} s"
        blocks = [f"**{self.title}** ({self.state}{took})"]
        if self.rows:
            columns = list(dict.fromkeys(name for row in self.rows for name in row.found))
            cells = [[row.name, *(row.found.get(column, "") for column in columns)] for row in self.rows]
            blocks.append(Table(["", *columns], cells, []).markdown().strip())
        problems = [f"{row.name}: {row.problem}" for row in self.rows if row.problem]
        problems += [self.problem] if self.problem else []
        if problems:
            blocks.append("\n".join(f"- WRONG: {' '.join(problem.split())}" for problem in problems))
        return "\n\n".join(blocks)


def page(command: str, parts: list[Part]) -> str:
    """A page in Markdown that can be pasted into a bug report or docs/speed.md."""
    return "\n\n".join([f"`{command}`", *(part.markdown() for part in parts)]) + "\n"
