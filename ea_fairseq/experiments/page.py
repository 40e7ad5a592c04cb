"""A self-contained HTML page of sortable tables, figures, and how each result was made."""

import base64
import html
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ea_fairseq.errors import printable
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.task_scores import digits_of
from ea_fairseq.plain.project import PACKAGE

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
h1, h2, h3, summary, dd { overflow-wrap: anywhere; }
a { color: var(--accent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--text); white-space: normal; vertical-align: bottom; }
.note, figcaption, dt { color: var(--quiet); font-size: .85rem; overflow-wrap: anywhere; }
.note, figcaption { margin: .4rem 0; }
figure { margin: 1.5rem 0; overflow-x: auto; }
.sample { display: grid; grid-template-columns: fit-content(35%) 1fr; gap: .1rem 1rem; margin: 1rem 0; }
.sample dd { margin: 0; }
th button { all: inherit; display: inline; padding: 0; border: 0; cursor: pointer; }
th button:hover { text-decoration: underline; } th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }
code { font-size: .8rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) { dd { margin-left: 1rem; } .sample { display: block; } .sample dd { margin: 0 0 .3rem; } }
@media (prefers-color-scheme: dark) {
  figure img, .plotly-graph-div { filter: invert(.92) hue-rotate(180deg) brightness(1.3); }
}
""".strip()


THEME = PACKAGE / "explorer" / "theme.css"
SORTING = Path(__file__).with_name("sort_tables.js")
MAPS = "attention_maps"  # folder next to the checkpoints, where attention_maps.py puts its files
PAGES = (".html", ".svg")


def page(title: str, tables: str, figures: list[str], runs: list[str]) -> str:
    """Returns the page.

    Args:
        tables: as HTML.
        figures: as HTML, see :func:`figure` and :func:`picture`.
        runs: how each result was made, as HTML.
    """
    blocks = [
        f"<h1>{html.escape(title)}</h1>",
        tables,
        *figures,
        "<h2>Runs</h2>",
        *runs,
    ]
    body = "\n".join([*blocks, f"<script>\n{SORTING.read_text(encoding='utf-8')}</script>"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{THEME.read_text(encoding='utf-8')}{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def picture(path: Path, caption: str) -> str:
    """Returns a figure of the page, with the SVG file embedded."""
    data = base64.b64encode(path.read_bytes()).decode()
    return figure(f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(caption)}">', caption)


def figure(drawing: str, caption: str) -> str:
    """Returns a figure of the page.

    Args:
        drawing: as HTML.
    """
    return f"<figure>\n{drawing}\n<figcaption>{html.escape(caption)}</figcaption>\n</figure>"


def run_html(result: Results, out: Path | None = None) -> str:
    """Shows how a result was made, folded away, with links to its attention maps if the page's folder is given."""
    found = [*facts_of(result), *(maps_of(result, out) if out else ())]
    facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in found)
    heading = html.escape(f"{result.model}, {result.dataset.name}, seed {result.seed}")
    return f"<details>\n<summary>{heading}</summary>\n<dl>\n{facts}\n</dl>\n</details>"


def facts_of(result: Results) -> Iterator[tuple[str, str]]:
    """Yields names and HTML values of the facts of how a result was made."""
    for name, score in result.scores.items():
        value = f"{score.score:.{digits_of(name)}f}"
        yield name, f"{value}: {html.escape(score.detail)}<br><code>{html.escape(score.signature)}</code>"
    hours = f"{result.seconds / 3600:.2f} hours" if result.seconds >= 3600 else f"{result.seconds / 60:.1f} minutes"
    device = result.training_device or "a device that was not recorded"
    yield "training", html.escape(f"{result.length}, {hours}, on {device}")
    yield "checkpoints", html.escape(", ".join(result.checkpoints))
    yield "commands", "<br>".join(f"<code>{html.escape(command)}</code>" for command in result.commands)
    if result.training_command:
        yield "training command", f"<code>{html.escape(result.training_command)}</code>"
    tools = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    yield "versions", html.escape(f"commit {result.commit or 'unknown'}; {tools}; {result.device}")


def maps_of(result: Results, out: Path) -> Iterator[tuple[str, str]]:
    """Yields links to the attention maps of a trained model, if it has any."""
    folder = result.folder.parent / MAPS
    pages = [path for path in sorted(folder.glob("*")) if path.suffix in PAGES]
    links = []
    for path in pages:
        place, name = quote(os.path.relpath(path.resolve(), out.resolve())), html.escape(printable(path.name))
        links.append(f'<a href="{place}">{name}</a>')
    if links:
        yield "attention maps", ", ".join(links)
