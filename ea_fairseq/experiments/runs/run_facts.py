"""What made a result, for a reader who wants to have it again."""

import html
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ea_fairseq.errors import printable
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.task_scores import digits_of

MAPS = "attention_maps"  # beside the checkpoints, where attention_maps.py puts its files
PAGES = (".html", ".svg")


def run_html(result: Results, out: Path | None = None) -> str:
    """What made a result, folded away; with links to its attention maps where it is told where the page will be."""
    facts = [*facts_of(result), *(maps_of(result, out) if out else ())]
    facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in facts)
    heading = html.escape(f"{result.model}, {result.dataset.name}, seed {result.seed}")
    return f"<details>\n<summary>{heading}</summary>\n<dl>\n{facts}\n</dl>\n</details>"


def facts_of(result: Results) -> Iterator[tuple[str, str]]:
    """Names and HTML of what made a result."""
    for name, score in result.scores.items():
        value = f"{score.score:.{digits_of(name)}f}"
        yield name, f"{value}: {html.escape(score.detail)}<br><code>{html.escape(score.signature)}</code>"
    hours = f"{result.seconds / 3600:.2f} hours" if result.seconds >= 3600 else f"{result.seconds / 60:.1f} minutes"
    device = result.training_device or "a device that was not recorded"
    yield "training", html.escape(f"{result.length}, {hours}, on {device}")
    yield "checkpoints", html.escape(", ".join(result.checkpoints))
    yield "made by", "<br>".join(f"<code>{html.escape(command)}</code>" for command in result.commands)
    if result.training_command:
        yield "trained by", f"<code>{html.escape(result.training_command)}</code>"
    tools = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    yield "with", html.escape(f"commit {result.commit or 'unknown'}; {tools}; {result.device}")


def maps_of(result: Results, out: Path) -> Iterator[tuple[str, str]]:
    """Links to the attention maps of a trained model, where there are some."""
    folder = result.folder.parent / MAPS
    pages = [path for path in sorted(folder.glob("*")) if path.suffix in PAGES]
    links = []
    for path in pages:
        place, name = quote(os.path.relpath(path.resolve(), out.resolve())), html.escape(printable(path.name))
        links.append(f'<a href="{place}">{name}</a>')
    if links:
        yield "attention maps", ", ".join(links)
