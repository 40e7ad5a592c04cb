"""Markdown pages of published results: a results page with the main points, and one page for each section.

A section is a folder with section.md (its heading and text) and with results.json or rationales.json files at any
depth; it may have speed*.json, benchmarks of its models. Its own page has all of its text, tables and figures, and what
made each number. The results page has the section's text up to DETAILS and its first table; it only has a link, at its
end, to a section without DETAILS.

The costs of a training are shown in the first section that has its results. Figures of all results of a section are
shown if it has a training that no section before it has.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.page import run_html
from ea_fairseq.experiments.reports import kept_p_value, relative_speed
from ea_fairseq.experiments.reports.comparison import Comparison, Spread, find_results
from ea_fairseq.experiments.reports.comparison_table import listed, tables_by_dataset
from ea_fairseq.experiments.reports.kept_p_value import KeptPValue, p_value
from ea_fairseq.experiments.reports.rationale_tables import rationale_files, rationale_tables
from ea_fairseq.experiments.reports.task_table import tables_of
from ea_fairseq.experiments.scoring.results import NAME, Results
from ea_fairseq.experiments.tables import NONE, Table, markdown
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.records import is_file_name

SECTION = "section.md"
DETAILS = "<!-- details -->"  # a line of section.md
LINK = re.compile(r"(?<!\\)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A section of the results.

    Args:
        folder: of its texts and results.
        text: the content of section.md; its links are relative to the folder of the results page.
        page: the section's own.
    """

    folder: Path
    text: str
    page: Path

    @property
    def title(self) -> str:
        """The heading of the section."""
        return next(iter(HEADING.findall(self.text)), self.folder.name)

    def anchors(self) -> list[str]:
        """The link anchors of its headings: in lower case, with hyphens for spaces."""
        headings = HEADING.findall(self.text)
        return [re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings]

    def comparison(self, score: str | None) -> Comparison | None:
        """Its results; None if it has only text."""
        return Comparison.of(find_results([self.folder]), score) if any(self.folder.rglob(NAME)) else None

    def tables(self, comparison: Comparison | None) -> list[Table]:
        """The tables of its results, with speeds if there are benchmarks, and of its rationales."""
        rationales = list(rationale_tables(rationale_files([self.folder])).values())
        if comparison is None:
            return rationales
        benchmarks = sorted(self.folder.glob(relative_speed.NAMES))
        speeds = relative_speed.RelativeSpeed.read(benchmarks) if benchmarks else None
        if all(result.translates for result in comparison.all_results()):
            return [*tables_by_dataset(comparison, losses=True, speeds=speeds), *rationales]
        return [*tables_of(comparison).values(), *rationales]


def write_results_page(page: Path, folder: Path, score: str | None) -> list[Path]:
    """Writes the page, those of its sections into a folder of its name, and figures into ``figures`` next to it.

    Args:
        folder: of the sections, with section.md for the head of the page.
        score: as for compare.

    Returns:
        All that was written.

    Raises:
        UserError: naming the file that is missing or does not fit the others.
    """
    from ea_fairseq.experiments.figures import draw  # takes a second
    from ea_fairseq.experiments.reports.plots import plots

    folders = sorted(path.parent for path in folder.glob(f"*/{SECTION}"))
    sections = [Section(found, text_of(found), page.with_suffix("") / f"{found.name}.md") for found in folders]
    homes = {anchor: section.page for section in sections for anchor in section.anchors()}
    story, others, written, seen = [text_of(folder)], [], [page], set[str | None]()
    for section in sections:
        comparison = section.comparison(score)
        tables = section.tables(comparison)
        text = re.sub("^#(?=#)", "", section.text.replace(f"{DETAILS}\n\n", ""), flags=re.MULTILINE)
        blocks = [relinked(text, page.parent, section.page.parent, homes)]
        blocks += [table.markdown().strip() for table in tables]
        if comparison:
            trained = [result for result in comparison.all_results() if result.training_command not in seen]
            if trained:
                figures = draw(plots(comparison), page.parent / "figures", f"{section.folder.name}-", ("png",))
                blocks += [cost_table(Comparison.of(trained, score)).markdown().strip()]
                blocks += [picture(path, caption, section.page.parent) for path, caption in figures]
                written += [path for path, _ in figures]
            blocks += map(run_html, comparison.all_results())
            seen |= {result.training_command for result in trained} - {None}
        section.page.parent.mkdir(exist_ok=True)
        write_whole(section.page, "\n\n".join(blocks) + "\n")
        written.append(section.page)
        place = section.page.relative_to(page.parent).as_posix()
        if DETAILS in section.text:
            story.append(section.text.partition(DETAILS)[0].strip())
            story += [replace(table, notes=[]).markdown().strip() for table in first_of(tables)]
            curves = "learning curves, " if comparison else ""
            story.append(f"[More on this, with {curves}commands and versions]({place})")
        else:
            others.append(f"- [{section.title}]({place})")
    story += ["## More results", "\n".join(others)] if others else []
    write_whole(page, relinked("\n\n".join(story), page.parent, page.parent, homes) + "\n")
    return written


def first_of(tables: list[Table]) -> list[Table]:
    """The first table, which may be several, one for each data set: only the last of these has notes."""
    return tables[: next((number for number, table in enumerate(tables, 1) if table.notes), 0)]


def picture(path: Path, caption: str, folder: Path) -> str:
    """A figure and its caption, for a page in a folder."""
    place = quote(Path(os.path.relpath(path, folder)).as_posix())
    return f"![{markdown(path.stem)}]({place})\n\n{markdown(caption)}"


def relinked(text: str, old: Path, new: Path, homes: Mapping[str, Path]) -> str:
    """Changes the links of a text for a page in another folder.

    Args:
        old, new: the folders of the page that the links are written for, and of the one that the text is for.
        homes: the pages of the sections' headings, by anchor.

    Raises:
        UserError: naming a heading that no section has.
    """

    def link(found: re.Match) -> str:
        place, anchor = found[1], found[2] or ""
        if not place and anchor[1:] not in homes:
            raise UserError(f"no section has a heading for the link {anchor}: give one that is there.")
        target = old / place if place else homes[anchor[1:]]
        return f"]({Path(os.path.relpath(target, new)).as_posix()}{anchor})"

    return LINK.sub(link, text)


def text_of(section: Path) -> str:
    """The heading and text of a section; raises UserError if it has none."""
    path = section / SECTION
    if not path.is_file():
        raise UserError(f"there is no {path}: write the heading and the text of this part of the page into it.")
    return path.read_text(encoding="utf-8").strip()


def cost_table(comparison: Comparison) -> Table:
    """The costs of training: a row for each model and data set."""
    rows = []
    for model in comparison.models:
        for dataset in comparison.datasets:
            results = list(comparison.results(model, dataset).values())
            if results:
                rows.append([model, dataset, str(len(results)), *costs_of(results)])
    notes = [
        "Hours are wall-clock time from the start of a training to its end, with validations and without "
        "interruptions; means over seeds."
    ]
    return Table(["model", "data", "seeds", "updates", "hours each", "trained on"], rows, notes)


def costs_of(results: list[Results]) -> Iterator[str]:
    """Cells of a table: updates, hours of training, devices."""
    yield f"{Spread.of(result.updates for result in results).mean:,.0f}"
    yield f"{Spread.of(result.seconds / 3600 for result in results).mean:.2f}"
    yield listed(result.training_device or NONE for result in results)


def keep(comparison: Comparison, folder: Path) -> list[Path]:
    """Copies what a page needs, without texts and labels, into DATASET/MODEL/seed-N; returns the folders."""
    kept, values = [], p_values_of_encoders(comparison)
    for result in comparison.all_results():
        model = result.model.replace("/", "-").replace(" ", "_")
        if not is_file_name(model):
            raise UserError(f"{result.folder}: the model's name, {model}, cannot name a folder: evaluate with --model.")
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
