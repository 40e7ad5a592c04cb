"""Self-contained pages: styles, scripts and data in one HTML file."""

import html
import json
from importlib.resources import files
from importlib.resources.abc import Traversable

EXPLORER = files(__package__)


def filled(body: Traversable, title: str, styles: list[Traversable], scripts: list[Traversable], data: object) -> str:
    """Frames a page's body, and replaces ``{{title}}`` and so on by title, styles, scripts, and data as JSON."""
    parts = {
        "title": html.escape(title),
        "style": "\n".join(map(text_of, styles)),
        "script": "\n".join(map(text_of, scripts)),
        "data": json.dumps(data).replace("<", "\\u003c"),  # so that no word can end the script element
    }
    page = text_of(EXPLORER / "frame.html").replace("{{body}}", text_of(body))
    before, *rest = page.split("{{")
    return before + "".join(parts[name] + after for name, after in (part.split("}}", 1) for part in rest))


def text_of(file: Traversable) -> str:
    """The text of a file of this package."""
    return file.read_text(encoding="utf-8")
