"""Published results: what report.py makes of the committed results.json files, today as when it was written."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from commands import ROOT
from ea_fairseq.experiments.rationales.results import RationaleResults
from ea_fairseq.experiments.reports.comparison import find_results
from ea_fairseq.experiments.reports.rationale_tables import rationale_files
from ea_fairseq.experiments.reports.results_page import SECTION, write_results_page
from ea_fairseq.experiments.reports.seed_range import is_alike, seed_range
from ea_fairseq.experiments.scoring.results import Results

DOCS = ROOT / "docs"
# Of pages with results.json files, by the names of their folders.
OF_TASKS = ("encoder-results", "time-series-results", "graph-results", "image-results")
SCORES = {"results": "tokenized BLEU", **dict.fromkeys(OF_TASKS)}
RATIONALES = "rationale-results"  # a page with rationales.json files, and without figures


@pytest.fixture(scope="module", params=[*SCORES, RATIONALES])
def made(request, tmp_path_factory) -> Path:
    """A results page, those of its sections beneath it, and its figures, drawn but empty."""
    page = tmp_path_factory.mktemp("docs") / f"{request.param}.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda _, path, **options: path.touch())
        write_results_page(page, DOCS / request.param, SCORES.get(request.param))
    return page


def pages(page: Path) -> dict[str, str]:
    """A results page and those of its sections, by their paths from its folder."""
    paths = [page, *page.with_suffix("").glob("*.md")]
    return {str(path.relative_to(page.parent)): path.read_text() for path in paths if path.name != SECTION}


def test_the_pages_are_made_of_the_committed_results(made):
    assert pages(made) == pages(DOCS / made.name)


def test_every_figure_of_the_pages_is_there(made):
    figures = {
        (DOCS / name).parent / figure
        for name, text in pages(made).items()
        for figure in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    }
    assert bool(figures) is (made.stem != RATIONALES) and all(figure.is_file() for figure in figures)
    assert {path.name for path in made.parent.glob("figures/*")} <= {figure.name for figure in figures}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_its_figures_are_drawn(name, tmp_path):
    written = write_results_page(tmp_path / f"{name}.md", DOCS / name, SCORES[name])
    figures = [path for path in written if path.suffix == ".png"]
    assert figures and all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)


@pytest.mark.parametrize("folder", SCORES)
def test_every_result_has_clean_commits_and_commands_to_repeat_it(folder):
    for result in find_results([DOCS / folder]):
        *prepare, train, evaluate = result.commands  # without preparation where quickstart.sh ran all three
        assert all(command.startswith("bash data-prep/prepare-") for command in prepare)
        assert prepare or "quickstart/" in train
        assert train.startswith(("bash scripts/train.sh", "ea-fairseq train")) and f"--seed {result.seed}" in train
        assert evaluate.startswith(("bash scripts/evaluate.sh", "ea-fairseq evaluate"))
        assert result.commit and not result.commit.endswith("+")
        assert not re.search(r'[\s"=]/\w', (result.folder / "results.json").read_text())


def test_every_rationale_was_found_by_a_clean_commit():
    for path in rationale_files([DOCS / RATIONALES]):
        found = RationaleResults.read(path)
        assert found.commit and not found.commit.endswith("+")
        assert not re.search(r'[\s"=]/\w', path.read_text())


def of_seeds() -> list[Results]:
    """Published trainings of which there are several that differ in the seed alone."""
    found = find_results([DOCS / "results"])
    return [result for result in found if len({other.seed for other in found if is_alike(other, result)}) > 1]


def test_a_new_training_finds_the_range_of_published_ones_whose_version_had_fewer_options():
    published = of_seeds()
    assert {result.arch for result in published} >= {"transformer_lite", "ea_transformer_lite"}
    for result in published:
        score = next(iter(result.scores))
        again = replace(result, settings={**result.settings, "ea_later": 2}, seed=99)
        assert seed_range(again, score) == seed_range(result, score) is not None
        given = replace(again, training_command=f"{result.training_command} --ea-later 2")
        assert seed_range(given, score) is None
