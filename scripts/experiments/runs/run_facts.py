"""What made a result, for a reader who wants to have it again."""

import html
from collections.abc import Iterator

from experiments.scoring.results import Results
from experiments.scoring.task_scores import digits_of


def run_html(result: Results) -> str:
    """What made a result, folded away."""
    facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in facts_of(result))
    heading = html.escape(f"{result.model}, {result.dataset.name}, seed {result.seed}")
    return f"<details>\n<summary>{heading}</summary>\n<dl>\n{facts}\n</dl>\n</details>"


def facts_of(result: Results) -> Iterator[tuple[str, str]]:
    """Names and HTML of what made a result."""
    for name, score in result.scores.items():
        value = f"{score.score:.{digits_of(name)}f}"
        yield name, f"{value}: {html.escape(score.detail)}<br><code>{html.escape(score.signature)}</code>"
    hours = f"{result.seconds / 3600:.2f} hours" if result.seconds >= 3600 else f"{result.seconds / 60:.1f} minutes"
    trained = f"{result.updates:,} updates, {result.epochs} epochs, {hours}"
    yield "training", html.escape(f"{trained}, on {result.training_device or 'a device that was not recorded'}")
    yield "checkpoints", html.escape(", ".join(result.checkpoints))
    yield "made by", "<br>".join(f"<code>{html.escape(command)}</code>" for command in result.commands)
    if result.training_command:
        yield "trained by", f"<code>{html.escape(result.training_command)}</code>"
    tools = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    yield "with", html.escape(f"commit {result.commit or 'unknown'}; {tools}; {result.device}")
