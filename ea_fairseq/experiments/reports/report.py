"""A report of trained models: tables and figures as in the papers, and one page with all of them."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.report import TITLE as SPEED
from ea_fairseq.experiments.benchmark.report import all_benchmarks, write_benchmarks
from ea_fairseq.experiments.environment import require_matplotlib
from ea_fairseq.experiments.page import figure, page, picture, run_html
from ea_fairseq.experiments.reports.comparison import Comparison, find_results
from ea_fairseq.experiments.reports.rationale_tables import rationale_files, rationale_tables
from ea_fairseq.experiments.reports.results_page import keep, write_results_page
from ea_fairseq.experiments.reports.samples import samples_html
from ea_fairseq.experiments.reports.task_table import tables_of
from ea_fairseq.experiments.scoring.results import NAME
from ea_fairseq.experiments.tables import Table
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.flags import flag_of

TITLE = "Evolving attention: results"
PAGE = "report.html"
FORMS = {"md": "markdown", "csv": "csv", "tex": "latex"}


def main() -> None:
    """Writes the report and prints its table."""
    parser = Parser(
        "report",
        "Writes tables (Markdown, CSV, LaTeX) and figures (PNG, SVG) of the results of ea-fairseq evaluate, and one\n"
        "page with all of them, report.html. For results of ea-fairseq benchmark it writes a page of speeds, and for\n"
        "those of ea-fairseq rationales tables over seeds.",
        "ea-fairseq report --out runs/report runs/multi30k-deen",
    )
    add = parser.add_argument
    text = "results.json or rationales.json, or a folder with some at any depth, or files of ea-fairseq benchmark"
    add("results", type=Path, nargs="+", metavar="RESULTS", help=text)
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="folder to write (default: report)")
    text = "model to compare the others with (default: for each evolving model, the plain one of its size)"
    add("--baseline", metavar="MODEL", help=text)
    text = "a score of results.json (default: tokenized BLEU; for encoders, the first of each data set)"
    add("--score", metavar="NAME", help=text)
    add("--title", metavar="TEXT", help="title of the page")
    text = "write a page of Markdown instead, and one for each section of RESULTS, such as docs/results"
    add("--page", type=Path, metavar="FILE", help=text)
    text = "copy what --page needs from RESULTS into a section, and write nothing else"
    add("--keep", type=Path, metavar="DIR", help=text)
    add("--no-p-values", action="store_true", help="skip the significance tests, which need the translations")
    args = parser.parse_args()
    require_matplotlib()
    if args.out.exists() and not args.out.is_dir():
        raise UserError(f"--out: {args.out} is not a folder: give one to write the report into.")
    if all_benchmarks(args.results):
        print(*write_benchmarks(args.results, args.out, args.title or SPEED), sep="\n")
        return
    if args.page:
        ignored = [name for name in ("keep", "baseline", "title", "no_p_values") if getattr(args, name)]
        if ignored:
            raise UserError(f"{flag_of(ignored[0])} does not go with --page: leave one of them out.")
        if len(args.results) > 1:
            raise UserError("--page needs one folder of sections: give no more than that.")
        print(*write_results_page(args.page, args.results[0], args.score), sep="\n")
        return
    rationales = rationale_files(args.results)
    if rationales and not any(place.name == NAME or any(place.rglob(NAME)) for place in args.results):
        if args.keep:
            raise UserError("--keep is for results of evaluate: copy each rationales.json into the section yourself.")
        print(*write_report(args.out, args.title or TITLE, rationale_tables(rationales, args.baseline)), sep="\n")
        return
    comparison = Comparison.of(find_results(args.results), args.score, args.baseline)
    if args.keep:
        print(*keep(comparison, args.keep), sep="\n")
        return
    from ea_fairseq.experiments.figures import draw
    from ea_fairseq.experiments.reports.plots import plots

    tables = tables_of(comparison, p_values=not args.no_p_values)
    drawn = draw(plots(comparison), args.out / "figures")
    runs = [run_html(result, args.out) for result in comparison.all_results()]
    figures = figures_of_page(comparison, drawn)
    written = write_report(args.out, args.title or TITLE, tables, samples_html(comparison), figures, runs)
    print(*written, *(path for path, _ in drawn), sep="\n")


def write_report(
    out: Path,
    title: str,
    tables: dict[str, Table],
    samples: str = "",
    figures: Sequence[str] = (),
    runs: Sequence[str] = (),
) -> list[Path]:
    """Prints tables, writes them and one page of everything, and returns the files.

    Args:
        tables: by the names of their files.
        samples, figures, runs: as HTML.
    """
    files = {f"{name}.{end}": getattr(table, form)() for name, table in tables.items() for end, form in FORMS.items()}
    print(*(files[f"{name}.md"] for name in tables), sep="\n")
    blocks = "\n".join([*(table.html() for table in tables.values()), samples])
    files[PAGE] = page(title, blocks, [*figures], [*runs])
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(out / name, content)
    return [out / name for name in files]


def figures_of_page(comparison: Comparison, drawn: list[tuple[Path, str]]) -> list[str]:
    """HTML of the figures; curves are interactive if Plotly is installed."""
    if find_spec("plotly") is None:
        print("for interactive curves: pip install 'ea-fairseq[plots]'", file=sys.stderr)
        return [picture(path, caption) for path, caption in drawn]
    from ea_fairseq.experiments.reports.interactive_curves import all_interactive_curves, library

    curves = all_interactive_curves(comparison)
    shown = [
        figure(curves[path.stem], caption) if path.stem in curves else picture(path, caption) for path, caption in drawn
    ]
    return [library(), *shown] if curves else shown
