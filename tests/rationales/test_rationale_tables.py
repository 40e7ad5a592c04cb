"""`ea-fairseq report` of rationales: means over seeds, differences seed by seed, and the papers' rows beside ours."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales.options import Settings
from ea_fairseq.experiments.rationales.results import METRICS, NAME, ExplainedModel, RationaleResults
from ea_fairseq.experiments.reports.rationale_tables import rationale_files, rationale_tables
from ea_fairseq.experiments.reports.results_page import write_results_page
from ea_fairseq.experiments.tables import MINUS, NONE
from fake_encoder_results import write_encoder_results
from fake_results import make

PLAIN, EVOLVING, POOLED = "bert_mini", "ea_bert_mini", "bert_pooled"
AREAS = {PLAIN: [0.41, 0.44, 0.43], EVOLVING: [0.45, 0.40, 0.47]}  # of attention, by seed
SETTINGS = Settings(seed=1, draws=10, lime_samples=500, word_score="sum")


def explained(name: str, seed: int, sources: dict[str, float], area: float = 0.0) -> ExplainedModel:
    family = "ea_transformer" if name == EVOLVING else None
    means = {source: dict(zip(METRICS, (value, 0.1 * seed, -0.02), strict=True)) for source, value in sources.items()}
    performance = {"F1": 0.9 + seed / 100, "accuracy": 0.91}
    return ExplainedModel(f"runs/{name}/checkpoint_best.pt", f"{name} {seed} {area}", seed, family, performance, means)


def found(*models: tuple[str, ExplainedModel], **changes) -> RationaleResults:
    known = RationaleResults("movies", "test.jsonl.gz", "d" * 64, 199, 199, SETTINGS, dict(models), {}, "c" * 40)
    return replace(known, **changes)


def write(folder: Path, results: RationaleResults) -> Path:
    folder.mkdir(parents=True)
    results.write(folder)
    return folder / NAME


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three seeds of a plain and an evolving model side by side, and one seed of a model by itself."""
    for seed in (1, 2, 3):
        pair = [(name, explained(name, seed, {"attention": AREAS[name][seed - 1], "gold": 1.0})) for name in AREAS]
        write(tmp_path / f"runs/rationales-{seed}", found(*pair))
    write(tmp_path / "runs/pooled", found((POOLED, explained(POOLED, 1, {"pooling": 0.38}))))
    return tmp_path / "runs"


def rows(table) -> dict[tuple[str, str], dict[str, str]]:
    return {(row[0], row[1]): dict(zip(table.header, row, strict=True)) for row in table.rows}


def spread(values) -> str:
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"


def test_a_row_has_the_means_of_a_model_and_a_source_over_seeds(folder):
    tables = rationale_tables(rationale_files([folder]))
    assert list(tables) == ["movies", "movies-differences"]
    cells = rows(tables["movies"])
    assert list(cells)[:5] == [
        *((PLAIN, "attention"), (PLAIN, "gold"), (POOLED, "pooling"), (EVOLVING, "attention"), (EVOLVING, "gold"))
    ]
    for name, areas in AREAS.items():
        row = cells[name, "attention"]
        assert (row["seeds"], row["AUPRC"], row["F1"]) == ("3", spread(areas), spread([0.91, 0.92, 0.93]))
        assert (row["comprehensiveness"], row["sufficiency"]) == (spread([0.1, 0.2, 0.3]), f"{MINUS}0.020 ± 0.000")
    assert (cells[POOLED, "pooling"]["seeds"], cells[POOLED, "pooling"]["AUPRC"]) == ("1", "0.380")


def test_the_papers_rows_stand_below_ours(folder):
    table = rationale_tables(rationale_files([folder]))["movies"]
    printed = {key: row for key, row in rows(table).items() if key[0].endswith("(printed)")}
    assert len(printed) == 4 and list(rows(table))[-4:] == list(printed)
    row = printed["BERT + LSTM (printed)", "EA-Attention"]
    assert [row[name] for name in ("seeds", "F1", "accuracy", "AUPRC")] == [NONE, "0.970", NONE, "0.435"]
    assert any("table XIII" in note for note in table.notes)
    write(folder / "questions", found(("mine", explained("mine", 1, {"lime": 0.2})), dataset="multirc"))
    write(folder / "others", found(("mine", explained("mine", 1, {"lime": 0.2})), dataset="letters"))
    tables = rationale_tables(rationale_files([folder]))
    assert rows(tables["multirc"])["EA-BERT + LSTM (printed)", "LIME"]["sufficiency"] == f"{MINUS}0.089"
    assert len(tables["letters"].rows) == 1 and not any("table XIII" in note for note in tables["letters"].notes)


def test_differences_are_those_of_the_seeds_that_both_models_have(folder):
    write(folder / "alone", found((EVOLVING, explained(EVOLVING, 9, {"attention": 0.9}))))
    table = rationale_tables(rationale_files([folder]))["movies-differences"]
    cells = rows(table)
    assert list(cells) == [(EVOLVING, "attention"), (EVOLVING, "gold")]
    changes = [ours - theirs for ours, theirs in zip(AREAS[EVOLVING], AREAS[PLAIN], strict=True)]
    expected = f"{statistics.fmean(changes):+.3f} ± {statistics.stdev(changes):.3f}"
    assert (cells[EVOLVING, "attention"]["AUPRC"], cells[EVOLVING, "attention"]["seeds"]) == (expected, "3")
    assert cells[EVOLVING, "attention"]["F1"] == "+0.000 ± 0.000"
    assert f"({EVOLVING} to {PLAIN})" in table.notes[0]


def test_one_seed_shows_no_difference_and_another_baseline_can_be_chosen(folder):
    one = [folder / "rationales-1", folder / "pooled"]
    assert list(rationale_tables(rationale_files(one))) == ["movies"]
    both = rationale_tables(rationale_files([folder]), EVOLVING)["movies-differences"]
    assert list(rows(both)) == [(PLAIN, "attention"), (PLAIN, "gold")]
    with pytest.raises(UserError, match=r"^--baseline: there is no magic; there are bert_mini, "):
        rationale_tables(rationale_files([folder]), "magic")


@pytest.mark.parametrize(
    ("names", "shown", "notes"),
    [
        (("a --lr 1", "b --lr 1"), ("a", "b"), ["All models were trained with --lr 1."]),
        (
            ("a --lr 1", "b --lr 1", "c --lr 2", "d"),
            ("a", "b", "c", "d"),
            ["a, b: trained with --lr 1.", "c: trained with --lr 2."],
        ),
        (("a --lr 1", "a"), ("a --lr 1", "a"), []),
    ],
    ids=["all", "some", "one model"],
)
def test_flags_that_distinguish_no_rows_stand_below_the_table(tmp_path, names, shown, notes):
    write(tmp_path / "runs", found(*((name, explained(name, 1, {"lime": 0.3})) for name in names)))
    table = rationale_tables(rationale_files([tmp_path / "runs"]))["movies"]
    assert [row[0] for row in table.rows if not row[0].endswith("(printed)")] == sorted(shown)
    assert [note for note in table.notes if "trained with" in note] == notes


def test_sources_of_one_model_in_several_files_are_put_together(folder):
    again = explained(PLAIN, 1, {"lime": 0.3})
    write(folder / "lime", found((PLAIN, again)))
    cells = rows(rationale_tables(rationale_files([folder]))["movies"])
    assert (cells[PLAIN, "lime"]["seeds"], cells[PLAIN, "lime"]["AUPRC"]) == ("1", "0.300")
    assert cells[PLAIN, "attention"]["seeds"] == "3"
    write(folder / "other", found((PLAIN, replace(again, sha256="another"))))
    with pytest.raises(UserError, match=r"both have bert_mini with seed 1: leave one out"):
        rationale_tables(rationale_files([folder]))


@pytest.mark.parametrize(
    "change", [{"documents_sha256": "e" * 64}, {"settings": replace(SETTINGS, word_score="max")}], ids=str
)
def test_other_documents_and_settings_are_not_compared(folder, change):
    write(folder / "other", found((POOLED, explained(POOLED, 2, {"pooling": 0.4})), **change))
    with pytest.raises(UserError, match=r"are of other documents of movies, or differ in settings"):
        rationale_tables(rationale_files([folder]))


def test_settings_of_a_source_count_for_files_that_have_it(folder):
    few, fewer = (replace(SETTINGS, lime_samples=number) for number in (100, 50))
    write(folder / "lime", found((PLAIN, explained(PLAIN, 1, {"lime": 0.3})), settings=few))
    table = rationale_tables(rationale_files([folder]))["movies"]
    assert "lime: 100 texts for each document." in table.notes
    write(folder / "lime-2", found((PLAIN, explained(PLAIN, 2, {"lime": 0.3})), settings=fewer))
    with pytest.raises(UserError, match=r"lime/rationales.json and .*lime-2/rationales.json .* differ in settings"):
        rationale_tables(rationale_files([folder]))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('"F1": 0.91', '"F1": NaN', "all scores must be finite"),
        ('"F1": 0.91', '"f1": 0.91', "'performance' must have F1 and accuracy"),
        ('"auprc": 0.38', '"area": 0.38', "'sources' must have auprc, comprehensiveness, sufficiency each"),
        ('"seed": 1,\n      "family"', '"seed": "1",\n      "family"', "'seed' must be a whole number"),
        ('"dataset": "movies"', '"dataset": "../movies"', "'dataset' must be the plain name of a file"),
    ],
)
def test_a_changed_file_is_refused_by_its_name(folder, before, after, sentence):
    path = folder / "pooled" / NAME
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(UserError, match=rf"^{path} is not what ea-fairseq rationales writes \({sentence}\)"):
        rationale_tables(rationale_files([folder]))


def test_report_writes_the_tables_and_a_page(folder, tmp_path, monkeypatch, capsys):
    files = make(monkeypatch, tmp_path / "report", folder)
    names = ("movies", "movies-differences")
    assert {*files} == {f"{name}.{end}" for name in names for end in ("md", "csv", "tex")} | {"report.html"}
    assert files["movies.md"].decode() in capsys.readouterr().out
    assert b"EA-Attention" in files["report.html"]
    with pytest.raises(UserError, match=r"^--keep is for results of evaluate"):
        make(monkeypatch, tmp_path / "kept", "--keep", tmp_path / "section", folder)
    write_encoder_results(folder / "evaluated", PLAIN, 1)
    assert "table.md" in make(monkeypatch, tmp_path / "mixed", folder)


def test_a_section_of_a_page_has_the_tables(folder, tmp_path):
    sections, page = tmp_path / "rationale-results", tmp_path / "docs/rationale-results.md"
    for place, text in (
        (sections, "# All"),
        (sections / "1-movies", "## Movies\n\nShort.\n\n<!-- details -->\n\nLong."),
    ):
        place.mkdir(exist_ok=True)
        (place / "section.md").write_text(text)
    folder.rename(sections / "1-movies/runs")
    page.parent.mkdir()
    written = write_results_page(page, sections, None)
    assert [path.name for path in written] == ["rationale-results.md", "1-movies.md"]
    assert "| model | rationale | seeds |" in page.read_text() and "Differences compare" not in page.read_text()
    own = written[1].read_text()
    assert own.count("| model | rationale | seeds |") == 2 and "Long." in own and "Differences compare" in own
