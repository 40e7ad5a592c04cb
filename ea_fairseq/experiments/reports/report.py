"""A report of trained models: tables and figures as in the papers, and one page with all of them."""

import sys
from importlib.util import find_spec
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.report import TITLE as SPEED
from ea_fairseq.experiments.benchmark.report import all_benchmarks, write_benchmarks
from ea_fairseq.experiments.environment import require_matplotlib
from ea_fairseq.experiments.page import figure, page, picture, run_html
from ea_fairseq.experiments.reports.comparison import Comparison, compare, find_results
from ea_fairseq.experiments.reports.results_page import keep, write_results_page
from ea_fairseq.experiments.reports.samples import samples_html
from ea_fairseq.experiments.reports.task_table import tables_of
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.whole_files import write_whole

TITLE = "Evolving attention: results"
PAGE = "report.html"
FORMS = {"md": "markdown", "csv": "csv", "tex": "latex"}


def main() -> None:
    """Write the report and print its table."""
    parser = Parser(
        "report",
        "Writes tables (Markdown, CSV, LaTeX) and figures (PNG, SVG) of the results of ea-fairseq evaluate, and one\n"
        "page with all of them, report.html. For results of ea-fairseq benchmark it writes a page of speeds.",
        "ea-fairseq report --out runs/report runs/multi30k-deen",
    )
    add = parser.add_argument
    text = "results.json, or a folder with some at any depth, or files of ea-fairseq benchmark"
    add("results", type=Path, nargs="+", metavar="RESULTS", help=text)
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="folder to write (default: report)")
    text = "model to compare the others with (default: for each evolving model, the plain one of its size)"
    add("--baseline", metavar="MODEL", help=text)
    text = "a score of results.json (default: tokenized BLEU; of encoders, the first of each data set)"
    add("--score", metavar="NAME", help=text)
    add("--title", metavar="TEXT", help="title of the page")
    text = "write a page of Markdown instead, and one for each section of RESULTS, such as docs/results"
    add("--page", type=Path, metavar="FILE", help=text)
    text = "copy what --page needs of RESULTS into a section, and write nothing else"
    add("--keep", type=Path, metavar="DIR", help=text)
    add("--no-p-values", action="store_true", help="skip the significance tests, which need the translations")
    args = parser.parse_args()
    require_matplotlib()
    require_folder(args.out)
    if all_benchmarks(args.results):
        print(*write_benchmarks(args.results, args.out, args.title or SPEED), sep="\n")
        return
    if args.page:
        if len(args.results) > 1:
            raise UserError("--page needs one folder of sections: give no more than that.")
        print(*write_results_page(args.page, args.results[0], args.score), sep="\n")
        return
    comparison = compare(find_results(args.results), args.score, args.baseline)
    if args.keep:
        print(*keep(comparison, args.keep), sep="\n")
        return
    from ea_fairseq.experiments.reports.plots import draw

    tables = tables_of(comparison, p_values=not args.no_p_values)
    figures = draw(comparison, args.out / "figures")
    blocks = "\n".join([*(table.html() for table in tables.values()), samples_html(comparison)])
    runs = [run_html(result, args.out) for result in comparison.all_results()]
    text = page(args.title or TITLE, blocks, figures_of_page(comparison, figures), runs)
    files = {f"{name}.{end}": getattr(table, form)() for name, table in tables.items() for end, form in FORMS.items()}
    files[PAGE] = text
    for name, content in files.items():
        write_whole(args.out / name, content)
    print(*(files[f"{name}.md"] for name in tables), sep="\n")
    for path in [*(args.out / name for name in files), *(path for path, _ in figures)]:
        print(path)


def figures_of_page(comparison: Comparison, drawn: list[tuple[Path, str]]) -> list[str]:
    """HTML of the figures: curves answer to the mouse where Plotly is installed."""
    if find_spec("plotly") is None:
        print("for curves that answer to the mouse: pip install 'ea-fairseq[plots]'", file=sys.stderr)
        return [picture(path, caption) for path, caption in drawn]
    from ea_fairseq.experiments.reports.interactive_curves import all_interactive_curves, library

    curves = all_interactive_curves(comparison)
    shown = [
        figure(curves[path.stem], caption) if path.stem in curves else picture(path, caption) for path, caption in drawn
    ]
    return [library(), *shown] if curves else shown


def require_folder(out: Path) -> None:
    """Raises UserError where --out is a file."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out: {out} is not a folder: give one to write the report into.")
