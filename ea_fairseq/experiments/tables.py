"""Tables in Markdown, CSV, LaTeX and HTML, with the same cells."""

import csv
import html
import io
import re
from dataclasses import dataclass

MINUS, NONE = "\u2212", "\u2013"
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {character: "\\" + character for character in "&%$#_{}"}
LATEX |= {"|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}
LATEX |= {"±": r"$\pm$", MINUS: "$-$", NONE: "--"}
MARKUP = re.compile(  # of Markdown: inline, and at the beginning of a line
    r"[\\`*~<\[\]$]|&(?=#?\w+;)|(?<!\w)_+|_+(?!\w)|^(?:[-+](?=[-\s]|$)|[#>]|\d+[.)](?=\s|$))"
)
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


class Code(str):
    """A cell that Markdown shows as code."""


@dataclass(frozen=True)
class Table:
    """A table whose first column has text and whose other columns have numbers.

    Args:
        notes: sentences below the table.
    """

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    def markdown(self) -> str:
        """Returns the table in Markdown, with its notes below."""

        def shown(cell: str) -> str:
            text = f"`{cell}`" if isinstance(cell, Code) and "`" not in cell else markdown(cell)
            return text.replace("|", r"\|")

        header, *rows = (map(shown, cells) for cells in (self.header, *self.rows))
        ruler = ["---", *["---:"] * (len(self.header) - 1)]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows))
        return "\n\n".join([table, *map(markdown, self.notes)]) + "\n"

    def csv(self) -> str:
        """Returns the table in CSV, without notes; minus signs become hyphens, which programs can read."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([[cell.replace(MINUS, "-") for cell in row] for row in (self.header, *self.rows)])
        return text.getvalue()

    def latex(self) -> str:
        """Returns a ``tabular`` environment that needs no package, with the notes in small print below."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}", r"\hline"]
        for index, row in enumerate((self.header, *self.rows)):
            lines.append(" & ".join(map(latex, row)) + r" \\" + (r" \hline" if index in (0, len(self.rows)) else ""))
        notes = [rf"{latex(note)}\par" for note in self.notes]
        return "\n".join([*lines, r"\end{tabular}\par\smallskip", r"{\footnotesize\raggedright", *notes, "}"]) + "\n"

    def html(self) -> str:
        """Returns the table in HTML, with its notes below."""

        def row(tag: str, cells: list[str]) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "\n".join(row("td", cells) for cells in self.rows)
        notes = "\n".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<div class=wide><table>\n<thead>{row('th', self.header)}</thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table></div>\n{notes}"
        )


def markdown(text: str) -> str:
    """Escapes Markdown's special characters in a line of text, but not the bar, which is special only in cells."""
    return MARKUP.sub(lambda found: PUNCTUATION.sub(r"\\\1", found[0]), text.lstrip())


def latex(text: str) -> str:
    """Escapes LaTeX's special characters."""
    return "".join(LATEX.get(character, character) for character in text)


def text_table(rows: list[list[str]]) -> str:
    """Formats rows as plain text: the first column is left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in rows)
    )


def short(number: float) -> str:
    """Formats a number as the papers do: 2.49M, 163.57M, 2.70G."""
    return f"{number / 1e9:.2f}G" if number >= 1e9 else f"{number / 1e6:.2f}M"
