"""A report of trained models: tables and figures as in the papers, and one page with all of them."""

import html
from collections.abc import Iterator
from pathlib import Path

from step import StepError

from experiments.arguments import Parser
from experiments.benchmark.report import TITLE as SPEED
from experiments.benchmark.report import all_benchmarks, write_benchmarks
from experiments.comparison import Comparison, find_results
from experiments.comparison_table import comparison_table
from experiments.environment import require_matplotlib
from experiments.page import page
from experiments.results import Results

TITLE = "Evolving attention: results"
PAGE = "report.html"
TABLES = {"table.md": "markdown", "table.csv": "csv", "table.tex": "latex"}
FIGURES = "figures"
ARGUMENTS = {
    "results": {
        "type": Path,
        "nargs": "+",
        "metavar": "RESULTS",
        "help": "results.json, or a folder with some at any depth; or files of benchmark.py",
    },
    "--out": {
        "type": Path,
        "default": Path("report"),
        "metavar": "DIR",
        "help": "folder to write (default: report)",
    },
    "--baseline": {
        "metavar": "MODEL",
        "help": "what all others are compared with (default: of each evolving model the plain one of its size)",
    },
    "--score": {
        "default": "tokenized BLEU",
        "metavar": "NAME",
        "help": "a score of results.json (default: %(default)s)",
    },
    "--title": {"metavar": "TEXT", "help": "title of the page"},
    "--no-p-values": {"action": "store_true", "help": "no significance tests, which need the translations"},
}


def main() -> None:
    """Write the report and print its table."""
    parser = Parser(
        "python scripts/report.py",
        "Makes tables (Markdown, CSV, LaTeX) and figures (PNG, SVG) of what scripts/evaluate.sh found of trained\n"
        "models, and one page, report.html, with all of them; or a page of what scripts/benchmark.py measured.",
        "python scripts/report.py --out runs/report runs/multi30k-deen",
    )
    for name, options in ARGUMENTS.items():
        parser.add_argument(name, **options)
    args = parser.parse_args()
    require_matplotlib()
    require_folder(args.out)
    if all_benchmarks(args.results):
        print(*write_benchmarks(args.results, args.out, args.title or SPEED), sep="\n")
        return
    comparison = Comparison.of(find_results(args.results), args.score, args.baseline)
    table = comparison_table(comparison, p_values=not args.no_p_values)
    figures = write_figures(comparison, args.out)
    text = page(args.title or TITLE, table.html(), figures, list(map(run_html, comparison.all_results())))
    files = {name: getattr(table, kind)() for name, kind in TABLES.items()} | {PAGE: text}
    for name, content in files.items():
        write(args.out / name, content)
    print(files["table.md"])
    for path in [*(args.out / name for name in files), *(path for path, _ in figures)]:
        print(path)


def write_figures(comparison: Comparison, out: Path) -> list[tuple[Path, str]]:
    """Draws all figures; returns their SVG files and captions."""
    import matplotlib

    from experiments.figures import PLOTS, save
    from experiments.plots import plots

    folder = out / FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(PLOTS):
        for name, caption, figure in plots(comparison):
            _, svg = save(figure, folder / name)
            written.append((svg, caption))
    return written


def require_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise StepError(f"--out: {out} is not a folder: give one to write the report into.")


def write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def run_html(result: Results) -> str:
    """What made a result, folded away."""
    facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in facts_of(result))
    heading = html.escape(f"{result.model}, {result.dataset.name}, seed {result.seed}")
    return f"<details>\n<summary>{heading}</summary>\n<dl>\n{facts}\n</dl>\n</details>"


def facts_of(result: Results) -> Iterator[tuple[str, str]]:
    """Names and HTML of what made a result."""
    for name, score in result.scores.items():
        yield name, f"{score.score:.2f}: {html.escape(score.detail)}<br><code>{html.escape(score.signature)}</code>"
    hours = f"{result.seconds / 3600:.2f} hours" if result.seconds >= 3600 else f"{result.seconds / 60:.1f} minutes"
    trained = f"{result.updates:,} updates, {result.epochs} epochs, {hours}"
    yield "training", html.escape(f"{trained}, on {result.training_device or 'a device that was not recorded'}")
    if result.training_command:
        yield "trained by", f"<code>{html.escape(result.training_command)}</code>"
    yield "checkpoints", html.escape(", ".join(result.checkpoints))
    yield "evaluated by", f"<code>{html.escape(result.command)}</code>"
    tools = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    yield "with", html.escape(f"commit {result.commit or 'unknown'}; {tools}; {result.device}")
