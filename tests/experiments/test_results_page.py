"""What report.py keeps of results to publish, and the pages that it makes of it."""

import re
import shutil
from dataclasses import replace
from urllib.parse import unquote

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison, find_results
from ea_fairseq.experiments.reports.comparison_table import comparison_table
from ea_fairseq.experiments.reports.relative_speed import RelativeSpeed
from ea_fairseq.experiments.reports.results_page import keep, write_results_page
from ea_fairseq.experiments.scoring.results import COUNTS, Results
from ea_fairseq.experiments.scoring.significance import p_value
from ea_fairseq.experiments.tables import NONE
from fake_benchmarks import fake_benchmark
from fake_results import EVOLVING, PLAIN, make, rewrite, write_results

SCORE = "tokenized BLEU"


def test_p_values_need_no_texts_where_their_counts_are(two_models, tmp_path):
    comparison = Comparison.of(find_results([two_models]), SCORE)
    kept = [Results.read(place) for place in keep(comparison, tmp_path)]
    assert not list(tmp_path.rglob("*.txt"))
    by_name = {(result.model, result.seed): result for result in kept}
    for seed in (1, 3):
        texts = [Results.read(two_models / f"{model}-{seed}") for model in ("plain", "evolving")]
        counts = [by_name[model, seed] for model in (PLAIN, EVOLVING)]
        assert p_value(*counts, SCORE) == p_value(*texts, SCORE)
    (by_name[PLAIN, 1].folder / COUNTS).write_text("4\t4\t4\t3\t2\t1\t4\t3\t2\t1\n" * 40)
    with pytest.raises(UserError, match=r"score 100\.00, and results\.json says"):
        p_value(by_name[PLAIN, 1], by_name[EVOLVING, 1], SCORE)


def test_a_section_shows_the_speed_of_its_models(two_models, tmp_path):
    """Of each family as it comes, and in no row of a model that the benchmark does not have."""
    places = [tmp_path / "speed-1.json", tmp_path / "speed-2.json"]
    for path, families in zip(places, (("realformer", "pa_transformer"), ("shaw",)), strict=True):
        fake_benchmark(sizes=("lite",), families=families).write(path)
    speeds = RelativeSpeed.read(places)
    assert speeds.of("realformer_lite") == speeds.of("shaw_lite") == ["0.91", "0.91"]
    assert speeds.of("pa_transformer_lite") == ["0.83", "0.83"] and len(speeds.notes) == 1
    table = comparison_table(Comparison.of(find_results([two_models]), SCORE), losses=True, speeds=speeds)
    assert {"training speed", "generation speed", "loss"} <= set(table.header)
    cells = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert cells[PLAIN]["training speed"] == "1.00" and cells[EVOLVING]["training speed"] == NONE
    losses = [found.valid_curve[-1].loss for found in find_results([two_models]) if found.model == PLAIN]
    assert cells[PLAIN]["loss"].startswith(f"{sum(losses) / len(losses):.3f}")


def test_nothing_is_kept_of_two_results_with_one_name(two_models, tmp_path, monkeypatch):
    shutil.copytree(two_models, tmp_path / "runs" / "again")
    shutil.copytree(two_models, tmp_path / "runs" / "once")
    with pytest.raises(UserError, match=r"are both \S+ with seed 1"):
        make(monkeypatch, tmp_path / "unused", "--keep", tmp_path / "kept", tmp_path / "runs")
    assert not (tmp_path / "kept").exists()


def test_a_page_of_sections_has_the_tables_figures_and_commands_of_each(two_models, tmp_path, monkeypatch):
    sections, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    for place, text in (
        (sections, "# All of it"),
        (sections / "b", "## Later"),
        (sections / "a", "## First\n\nShort.\n\n<!-- details -->\n\nLong."),
    ):
        place.mkdir(exist_ok=True)
        (place / "section.md").write_text(f"{text}\n")
    make(monkeypatch, tmp_path / "unused", "--keep", sections / "a", two_models)
    made = [make(monkeypatch, page.parent, "--page", page, sections) for _ in range(2)]
    assert made[0] == made[1]
    table = comparison_table(Comparison.of(find_results([two_models]), SCORE), losses=True)
    story, text = page.read_text(), (page.parent / "results" / "a.md").read_text()
    parts = ["# All of it", "## First", "Short.", replace(table, notes=[]).markdown(), "](results/a.md)", "- [Later]("]
    assert sorted(map(story.index, parts)) == [*map(story.index, parts)] and "Long." not in story
    assert text.startswith("# First\n\nShort.\n\nLong.\n\n") and table.markdown().strip() in text
    assert text.count("<summary>") == 5 and "bash scripts/train.sh" in text
    figures = re.findall(r"\]\((.*?)\)", text)
    assert (
        {f"results/{name}" for name in figures}
        == {f"results/../{name}" for name in made[0] if name.endswith(".png")}
        != set()
    )
    (sections / "section.md").unlink()
    with pytest.raises(UserError, match=re.escape(f"there is no {sections}/section.md")):
        make(monkeypatch, page.parent, "--page", page, sections)


def test_a_wide_table_is_one_for_each_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr("ea_fairseq.experiments.figures.draw", lambda *_: [])
    for dataset in ("one", "other"):
        for seed, model in ((seed, model) for seed in (1, 2) for model in (PLAIN, EVOLVING)):
            write_results(tmp_path / "in" / "a" / f"{dataset}-{model}-{seed}", model, seed, dataset=dataset)
    (tmp_path / "in" / "section.md").write_text("# Results")
    (tmp_path / "in" / "a" / "section.md").write_text("## A\n\n<!-- details -->\n\nmore")
    write_results_page(tmp_path / "page.md", tmp_path / "in", "tokenized BLEU")
    for text in ((tmp_path / "page.md").read_text(), (tmp_path / "page" / "a.md").read_text()):
        assert text.index("| one | parameters") < text.index("| other | parameters")
    assert text.count("Scores are means over seeds") == 1


@pytest.mark.parametrize("flags", [["--keep", "a"], ["--baseline", "a"], ["--title", "a"], ["--no-p-values"]])
def test_a_page_takes_no_options_that_it_would_ignore(two_models, tmp_path, monkeypatch, flags):
    with pytest.raises(UserError, match=f"^{flags[0]} does not go with --page: leave one of them out"):
        make(monkeypatch, tmp_path, "--page", tmp_path / "results.md", *flags, two_models)
    assert not [*tmp_path.iterdir()]


def test_a_page_shows_names_as_they_are(tmp_path, monkeypatch):
    sections, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    write_results(sections / "a" / "1", "<i>", dataset="a](x) <b>")
    for place in (sections, sections / "a"):
        (place / "section.md").write_text("# A heading\n")
    made = make(monkeypatch, page.parent, "--page", page, sections)
    text = (page.parent / "results" / "a.md").read_text()
    assert not re.search(r"(?<!\\)<[ib]>", text + page.read_text())
    figures = re.findall(r"!\[.*\]\((\S*)\)", text)
    assert {unquote(place) for place in figures} == {f"../{name}" for name in made if name.endswith(".png")} != set()


def test_links_between_sections_lead_to_their_pages(tmp_path):
    sections, page = tmp_path / "sections", tmp_path / "docs" / "all.md"
    page.parent.mkdir()
    links = "[a](#a-b) [b](other.md#x) [c](https://c.org/#c)"
    for place, text in (("", "# All"), ("1", "## One"), ("2", "## Two\n\n<!-- details -->\n\n### A, b")):
        (sections / place).mkdir(exist_ok=True)
        (sections / place / "section.md").write_text(f"{text}\n\n{links}\n")
    write_results_page(page, sections, None)
    assert "[a](all/2.md#a-b) [b](other.md#x) [c](https://c.org/#c)" in page.read_text()
    for name in "12":
        text = (page.parent / "all" / f"{name}.md").read_text()
        assert "[a](2.md#a-b) [b](../other.md#x) [c](https://c.org/#c)" in text
    assert "## A, b" in text.splitlines()
    (sections / "1" / "section.md").write_text("## One\n\n[a](#gone)\n")
    with pytest.raises(UserError, match="no section has a heading for the link #gone"):
        write_results_page(page, sections, None)


def test_costs_and_figures_of_a_training_are_shown_once(two_models, tmp_path, monkeypatch):
    sections, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    for name in ("", "1-test", "2-valid", "3-another"):
        (sections / name).mkdir()
        (sections / name / "section.md").write_text(f"# Section {name}\n")
    make(monkeypatch, tmp_path / "unused", "--keep", sections / "1-test", two_models)
    for result in find_results([sections / "1-test"]):
        place = sections / "2-valid" / result.model / str(result.seed)
        shutil.copytree(result.folder, place)
        rewrite(place, dataset=replace(result.dataset, subset="valid"))
    write_results(sections / "3-another" / "plain-4", PLAIN, seed=4)
    shutil.copytree(sections / "1-test", sections / "3-another" / "known")
    make(monkeypatch, page.parent, "--page", page, sections)
    first, second, third = (path.read_text() for path in sorted((page.parent / "results").glob("*.md")))
    assert all("hours each" in text and "training-loss.png" in text for text in (first, third))
    assert "hours each" not in second and ".png" not in second
    assert "Lines are means over seeds" in third
    assert first.count("<summary>") == second.count("<summary>") == 5
