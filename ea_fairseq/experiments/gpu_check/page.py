"""The tables of a check, in Markdown."""

from ea_fairseq.experiments.gpu_check.rows import Part


def page(command: str, parts: list[Part]) -> str:
    """A page that a bug report or docs/speed.md can take as it is."""
    blocks = [f"`{command}`"]
    for part in parts:
        blocks.append(f"**{part.title}** ({state(part)})")
        if part.rows:
            blocks.append(table(part))
        problems = [f"{row.name}: {row.problem}" for row in part.rows if row.problem]
        problems += [part.problem] if part.problem else []
        blocks += ["\n".join(f"- WRONG: {cell(problem)}" for problem in problems)] if problems else []
    return "\n\n".join(blocks) + "\n"


def state(part: Part) -> str:
    """Whether a part is done, and how long it took."""
    return part.state if part.state == "not begun" else f"{part.state}, {part.seconds:.0f} s"


def table(part: Part) -> str:
    """The rows, a column for each name that has a figure in any of them."""
    columns = list(dict.fromkeys(name for row in part.rows for name in row.found))
    head = [["", *columns], ["---", *(["---:"] * len(columns) if columns != [""] else ["---"])]]
    body = [[row.name, *(row.found.get(column, "") for column in columns)] for row in part.rows]
    return "\n".join(f"| {' | '.join(map(cell, cells))} |" for cells in [*head, *body])


def cell(text: str) -> str:
    """Text that neither ends a cell of a table nor begins a line."""
    return " ".join(text.split()).replace("|", "\\|")
