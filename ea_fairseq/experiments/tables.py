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
    """A table whose first column is of text and whose others are of numbers.

    Args:
        notes: sentences below it.
    """

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    def markdown(self) -> str:
        """The table in Markdown, notes below it."""

        def shown(cell: str) -> str:
            text = f"`{cell}`" if isinstance(cell, Code) and "`" not in cell else markdown(cell)
            return text.replace("|", r"\|")

        header, *rows = (map(shown, cells) for cells in (self.header, *self.rows))
        ruler = ["---", *["---:"] * (len(self.header) - 1)]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows))
        return "\n\n".join([table, *map(markdown, self.notes)]) + "\n"

    def csv(self) -> str:
        """Without the notes; minus signs are hyphens, as programs read them."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([[cell.replace(MINUS, "-") for cell in row] for row in (self.header, *self.rows)])
        return text.getvalue()

    def latex(self) -> str:
        """An environment ``tabular`` that needs no package, and the notes in small print below it."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}", r"\hline"]
        for index, row in enumerate((self.header, *self.rows)):
            lines.append(" & ".join(map(latex, row)) + r" \\" + (r" \hline" if index in (0, len(self.rows)) else ""))
        notes = [rf"{latex(note)}\par" for note in self.notes]
        return "\n".join([*lines, r"\end{tabular}\par\smallskip", r"{\footnotesize\raggedright", *notes, "}"]) + "\n"

    def html(self) -> str:
        """The table in HTML, notes below it."""

        def row(tag: str, cells: list[str]) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "\n".join(row("td", cells) for cells in self.rows)
        notes = "\n".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<div class=wide><table>\n<thead>{row('th', self.header)}</thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table></div>\n{notes}"
        )


def markdown(text: str) -> str:
    """A line of text with what Markdown has its own meaning for escaped; in a cell a bar has one, too."""
    return MARKUP.sub(lambda found: PUNCTUATION.sub(r"\\\1", found[0]), text.lstrip())


def latex(text: str) -> str:
    """Text with what LaTeX has its own meaning for escaped."""
    return "".join(LATEX.get(character, character) for character in text)


def text_table(rows: list[list[str]]) -> str:
    """Rows as plain text in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in rows)
    )


def short(number: float) -> str:
    """A number as the papers print it: 2.49M, 163.57M, 2.70G."""
    return f"{number / 1e9:.2f}G" if number >= 1e9 else f"{number / 1e6:.2f}M"
