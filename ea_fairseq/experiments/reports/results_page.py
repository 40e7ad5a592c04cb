"""A page in Markdown of published results, in sections: what was asked, tables, figures, and what made each number.

A section is a folder with section.md, its heading and text, and results.json files at any depth below it, and may have
speed*.json, benchmarks of its models. What a training took stands in the first section that has results of it; figures
of all its results stand in each section with a training that none before it has.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.page import run_html
from ea_fairseq.experiments.reports import kept_p_value, relative_speed
from ea_fairseq.experiments.reports.comparison import Comparison, Spread, compare, find_results
from ea_fairseq.experiments.reports.comparison_table import listed
from ea_fairseq.experiments.reports.kept_p_value import KeptPValue, p_value
from ea_fairseq.experiments.reports.task_table import tables_of
from ea_fairseq.experiments.scoring.results import NAME, Results
from ea_fairseq.experiments.tables import NONE, Table, markdown
from ea_fairseq.plain.records import is_file_name
from ea_fairseq.plain.whole_files import write_whole

SECTION = "section.md"


def write_results_page(page: Path, folder: Path, score: str | None) -> list[Path]:
    """Writes the page and, into ``figures`` beside it, its figures; returns all of them.

    Args:
        folder: of the sections, with section.md for the head of the page.
        score: as for compare.

    Raises:
        UserError: naming the file that is missing or does not fit the others.
    """
    from ea_fairseq.experiments.reports.plots import draw

    blocks, written, told = [text_of(folder)], [], set()
    for section in sorted(path.parent for path in folder.glob(f"*/{SECTION}")):
        blocks.append(text_of(section))
        if any(section.rglob(NAME)):
            comparison = compare(find_results([section]), score)
            benchmarks = sorted(section.glob(relative_speed.NAMES))
            speeds = relative_speed.RelativeSpeed.read(benchmarks) if benchmarks else None
            tables = tables_of(comparison, losses=True, speeds=speeds)
            blocks += [table.markdown().strip() for table in tables.values()]
            trained = [result for result in comparison.all_results() if result.training_command not in told]
            if trained:
                blocks.append(cost_table(compare(trained, score)).markdown().strip())
                for path, caption in draw(comparison, page.parent / "figures", f"{section.name}-", ("png",)):
                    place = quote(path.relative_to(page.parent).as_posix())
                    blocks.append(f"![{markdown(path.stem)}]({place})\n\n{markdown(caption)}")
                    written.append(path)
            blocks += map(run_html, comparison.all_results())
            told |= {result.training_command for result in trained} - {None}
    write_whole(page, "\n\n".join(blocks) + "\n")
    return [page, *written]


def text_of(section: Path) -> str:
    """The heading and text of a section; raises UserError where it has none."""
    path = section / SECTION
    if not path.is_file():
        raise UserError(f"there is no {path}: write the heading and the text of this part of the page into it.")
    return path.read_text(encoding="utf-8").strip()


def cost_table(comparison: Comparison) -> Table:
    """What training took: a row for each model and data set."""
    rows = []
    for model in comparison.models:
        for dataset in comparison.datasets:
            results = list(comparison.results(model, dataset).values())
            if results:
                rows.append([model, dataset, str(len(results)), *costs_of(results)])
    notes = [
        "Hours are of the clock, from the start of the training to its end, validations included and interruptions "
        "left out; means over seeds."
    ]
    return Table(["model", "data", "seeds", "updates", "hours each", "trained on"], rows, notes)


def costs_of(results: list[Results]) -> Iterator[str]:
    """Cells of a table: updates, hours of training, devices."""
    yield f"{Spread.of(result.updates for result in results).mean:,.0f}"
    yield f"{Spread.of(result.seconds / 3600 for result in results).mean:.2f}"
    yield listed(result.training_device or NONE for result in results)


def keep(comparison: Comparison, folder: Path) -> list[Path]:
    """Copies what a page is made of, without texts and labels, into DATASET/MODEL/seed-N; returns the folders."""
    kept, values = [], p_values_of_encoders(comparison)
    for result in comparison.all_results():
        model = result.model.replace("/", "-").replace(" ", "_")
        if not is_file_name(model):
            raise UserError(f"{result.folder}: no folder has the name of the model, {model}: evaluate with --model.")
        place = folder / result.dataset.name / model / f"seed-{result.seed}"
        place.mkdir(parents=True, exist_ok=True)
        result.keep(place)
        kept.append(place)
        if value := values.get((result.model, result.dataset.name)):
            value.write(place.parent / kept_p_value.NAME)
    return kept


def p_values_of_encoders(comparison: Comparison) -> dict[tuple[str, str], KeptPValue]:
    """The p-values of models that have a baseline, several seeds and the same examples for all seeds."""
    from ea_fairseq.experiments.scoring.randomization import OtherExamplesError  # takes a second

    found = {}
    for model, dataset in comparison.by_seed:
        pair = None if comparison.task(dataset) == "translation" else comparison.pair(model, dataset)
        if pair is not None:
            with suppress(OtherExamplesError):
                found[model, dataset] = p_value(pair)
    return found
