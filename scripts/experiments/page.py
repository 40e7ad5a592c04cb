"""One HTML page with tables and figures in it, which needs nothing beside itself."""

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
code { font-size: .8rem; overflow-wrap: anywhere; }
""".strip()


def page(title: str, tables: str, figures: list[tuple[Path, str]], runs: list[str]) -> str:
    """The page.

    Args:
        tables: as HTML.
        figures: SVG files and their captions.
        runs: what made each result, as HTML.
    """
    blocks = [
        f"<h1>{html.escape(title)}</h1>",
        tables,
        *(figure(path, caption) for path, caption in figures),
        "<h2>Runs</h2>",
        *runs,
    ]
    body = "\n".join(blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def figure(path: Path, caption: str) -> str:
    """A figure of the page, with the SVG file in it."""
    data = base64.b64encode(path.read_bytes()).decode()
    text = html.escape(caption)
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{text}">'
    return f"<figure>\n{image}\n<figcaption>{text}</figcaption>\n</figure>"
