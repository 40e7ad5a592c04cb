"""One HTML page with tables, which readers sort, and figures in it, which needs nothing beside itself."""

import base64
import html
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; }
body { max-width: 60rem; margin: auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #222; white-space: normal; vertical-align: bottom; }
.note, figcaption { color: #555; font-size: .85rem; margin: .4rem 0; overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; overflow-x: auto; }
th button { all: inherit; display: inline; padding: 0; border: 0; cursor: pointer; }
th button:hover { text-decoration: underline; } th button:focus-visible { outline: 2px solid #0072B2; }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }
code { font-size: .8rem; overflow-wrap: anywhere; }
""".strip()


SORTING = Path(__file__).with_name("sort_tables.js")


def page(title: str, tables: str, figures: list[str], runs: list[str]) -> str:
    """The page.

    Args:
        tables: as HTML.
        figures: as HTML, see :func:`figure` and :func:`picture`.
        runs: what made each result, as HTML.
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
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def picture(path: Path, caption: str) -> str:
    """A figure of the page, with the SVG file in it."""
    data = base64.b64encode(path.read_bytes()).decode()
    return figure(f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(caption)}">', caption)


def figure(drawing: str, caption: str) -> str:
    """A figure of the page.

    Args:
        drawing: as HTML.
    """
    return f"<figure>\n{drawing}\n<figcaption>{html.escape(caption)}</figcaption>\n</figure>"
