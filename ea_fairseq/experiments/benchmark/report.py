"""A page with the tables and figures of benchmarks."""

import html
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.results import Benchmark, is_benchmark
from ea_fairseq.experiments.benchmark.tables import heading, tables
from ea_fairseq.experiments.page import page, picture
from ea_fairseq.plain.files import write_whole

TITLE = "Evolving attention: speed and memory"


def all_benchmarks(places: list[Path]) -> bool:
    """Whether all of these are files of ea-fairseq benchmark; raises UserError if only some are."""
    found = [place for place in places if is_benchmark(place)]
    if found and len(found) < len(places):
        raise UserError(f"{found[0]} is a file of ea-fairseq benchmark, others are not: report on each kind by itself.")
    return bool(found)


def write_benchmarks(paths: list[Path], out: Path, title: str) -> list[Path]:
    """Draws all figures and writes the page; returns the files written."""
    from ea_fairseq.experiments.benchmark.figures import figures
    from ea_fairseq.experiments.figures import KINDS, draw

    benchmarks = {path: Benchmark.read(path) for path in paths}
    blocks, drawn = [], []
    for path, benchmark in benchmarks.items():
        drawn += draw(figures(benchmark), out / "figures", f"{path.stem}-")
        for heading_of, table in tables(benchmark):
            blocks.append(f"<h2>{html.escape(f'{heading_of} ({path.stem})')}</h2>\n{table.html()}")
    runs = [f"<pre class=wide>{html.escape(heading(benchmark))}</pre>" for benchmark in benchmarks.values()]
    written = out / "report.html"
    text = page(title, "\n".join(blocks), [picture(*one) for one in drawn], runs)
    write_whole(written, text)
    return [written, *(path.with_suffix(f".{kind}") for path, _ in drawn for kind in KINDS)]
