"""Tables of plain text."""


def table(rows: list[list[str]]) -> str:
    """The rows in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in rows)
    )
