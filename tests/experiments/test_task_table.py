"""report.py of encoders: the papers' table of tasks, differences over seeds, and the papers' rows beside ours."""

import statistics
from dataclasses import replace

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison, find_results
from ea_fairseq.experiments.reports.comparison_table import ranking
from ea_fairseq.experiments.reports.kept_p_value import NAME
from ea_fairseq.experiments.reports.papers import PRINTED
from ea_fairseq.experiments.reports.results_page import keep
from ea_fairseq.experiments.reports.task_table import difference_table, task_table
from ea_fairseq.experiments.scoring.randomization import randomization_p_value
from ea_fairseq.experiments.scoring.results import PREDICTIONS
from ea_fairseq.experiments.tables import NONE, Table
from fake_encoder_results import write_encoder_results
from fake_results import make, write_results

PLAIN, EVOLVING = "bert_mini", "ea_bert_mini"
TASKS = {"glue-cola": ("Matthews",), "glue-mrpc": ("F1", "accuracy")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three seeds of two models on two tasks, and one seed of a third model on one of them."""
    folder = tmp_path_factory.mktemp("results of encoders")
    for task, names in TASKS.items():
        for seed in (1, 2, 3):
            write_encoder_results(folder / task / PLAIN / str(seed), PLAIN, seed, task, names, wrong=0.4)
            place = folder / task / EVOLVING / str(seed)
            write_encoder_results(place, EVOLVING, seed, task, names, wrong=0.1, family="ea_transformer")
    place = folder / "glue-cola" / "pa"
    write_encoder_results(place, "pa_bert_mini", 1, "glue-cola", TASKS["glue-cola"], family="pa_transformer")
    return folder


@pytest.fixture(scope="module")
def comparison(folder) -> Comparison:
    return Comparison.of(find_results([folder]), None)


def cells(table: Table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}


def difference_cells(comparison: Comparison) -> dict[tuple[str, str], dict[str, str]]:
    table = difference_table(comparison)
    return {(row[0], row[1]): dict(zip(table.header, row, strict=True)) for row in table.rows}


def spread(values) -> str:
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


def test_a_row_has_the_scores_of_a_model_on_each_task_and_their_mean(comparison):
    found, headings = cells(task_table(comparison)), ("glue-cola: Matthews", "glue-mrpc: F1 / accuracy")
    assert set(headings) < set(found[PLAIN]) and found[PLAIN]["seeds"] == "3"
    by_task = {task: {name: comparison.scores(PLAIN, task, name) for name in TASKS[task]} for task in TASKS}
    assert found[PLAIN][headings[0]] == spread(by_task["glue-cola"]["Matthews"].values())
    pair = [spread(by_task["glue-mrpc"][name].values()) for name in ("F1", "accuracy")]
    assert found[PLAIN][headings[1]] == " / ".join(pair)
    means = [(by_task["glue-cola"]["Matthews"][seed] + by_task["glue-mrpc"]["F1"][seed]) / 2 for seed in (1, 2, 3)]
    assert found[PLAIN]["mean"] == spread(means)
    assert found["pa_bert_mini"]["mean"] == found["pa_bert_mini"][headings[1]] == NONE
    assert "±" not in found["pa_bert_mini"][headings[0]]


def test_the_papers_rows_are_those_of_the_families_that_are_compared(comparison):
    found = cells(task_table(comparison))
    assert found["EA-BERT-Base (printed, dev)"]["glue-mrpc: F1 / accuracy"] == "90.9 / 87.0"
    assert found["EA-BERT-Base (printed, dev)"]["mean"] == f"{(61.6 + 90.9) / 2:.2f}"
    assert "PA-BERT-Base (printed, test)" in found
    assert not [name for name in found if "RealFormer" in name or name.startswith("Transformer (printed")]
    notes = " ".join(task_table(comparison).notes)
    assert "table 3" in notes and "table 2" in notes and "scikit-learn" in notes


def test_every_printed_row_has_numbers():
    for row in PRINTED:
        assert row.scores and all(score[0].isdigit() for score in row.scores.values())
        assert row.model.endswith(("(printed)", "(printed, dev)", "(printed, test)"))


def test_differences_are_of_common_seeds_and_tested_over_examples(comparison):
    rows = difference_cells(comparison)
    for task, names in TASKS.items():
        scores = {model: comparison.scores(model, task) for model in (PLAIN, EVOLVING)}
        found = rows[EVOLVING, task]
        differences = [scores[EVOLVING][seed] - scores[PLAIN][seed] for seed in (1, 2, 3)]
        assert found["difference"] == f"{statistics.fmean(differences):+.2f} ± {statistics.stdev(differences):.2f}"
        assert found["best seed"] == f"{max(scores[EVOLVING].values()):.2f}" and found["seeds"] == "3"
        sides = [list(comparison.results(model, task).values()) for model in (PLAIN, EVOLVING)]
        assert found["p"] == f"{randomization_p_value(*sides, names[0]):.3f}" and float(found["p"]) < 0.01
        assert rows[PLAIN, task]["difference"] == rows[PLAIN, task]["p"] == NONE
    assert rows["pa_bert_mini", "glue-cola"]["difference"] == NONE  # one seed


def test_two_single_trainings_of_other_seeds_have_no_difference(tmp_path):
    found = [
        write_encoder_results(tmp_path / "a", PLAIN, 1),
        write_encoder_results(tmp_path / "b", EVOLVING, 2, family="x"),
    ]
    assert difference_table(Comparison.of(found)) is None


def test_a_report_of_encoders_has_both_tables_in_all_forms(folder, tmp_path, monkeypatch):
    written = make(monkeypatch, tmp_path / "out", folder, "--no-p-values")
    names = {f"{name}.{end}" for name in ("table", "differences") for end in ("md", "csv", "tex")}
    assert names | {"report.html"} == written.keys()
    page = written["report.html"].decode()
    assert "EA-BERT-Base (printed, dev)" in page and "difference" in page and "Matthews" in page


def test_one_model_alone_has_no_differences(folder, tmp_path, monkeypatch):
    written = make(monkeypatch, tmp_path / "out", folder / "glue-cola" / PLAIN)
    assert "table.md" in written and "differences.md" not in written


def test_translations_and_encoders_are_reported_apart(folder, tmp_path, monkeypatch):
    write_results(tmp_path / "a translation")
    with pytest.raises(UserError, match=r"a translation is of translations and .* is not: report them apart"):
        make(monkeypatch, tmp_path / "out", folder, tmp_path / "a translation")


def test_results_that_were_scored_otherwise_are_not_mixed(tmp_path):
    results = [
        write_encoder_results(tmp_path / name, name, 1, "glue-cola", (name,)) for name in ("Matthews", "accuracy")
    ]
    with pytest.raises(UserError, match="train both with the same flags of the criterion, or compare them apart"):
        Comparison.of(results, None)


def test_a_sweep_ranks_by_the_first_score_and_low_perplexities_first(tmp_path):
    drawn = {
        model: [("10", bits) for bits in column] for model, column in {"a": ("30", "40"), "b": ("20", "10")}.items()
    }
    results = []
    for model, rows in drawn.items():
        words, bits = zip(*rows, strict=True)
        place = tmp_path / model
        results.append(write_encoder_results(place, model, 1, names=("perplexity",), labels=words, predictions=bits))
    assert [model for model, _ in ranking(results)] == ["b", "a"]


def test_what_is_published_has_p_values_and_no_labels(folder, tmp_path, comparison):
    kept = find_results(keep(comparison, tmp_path))
    assert not list(tmp_path.rglob(PREDICTIONS)) and len(kept) == len(comparison.all_results())
    published = Comparison.of(kept, None)
    assert difference_table(published).rows == difference_table(comparison).rows
    fewer = Comparison.of([result for result in kept if result.seed < 3], None)
    with pytest.raises(UserError, match=r"there is no .*predictions\.tsv"):
        difference_table(fewer)
    for path in tmp_path.rglob(NAME):
        path.write_text('{"p": "small"}')
    with pytest.raises(UserError, match=r"p_value\.json is not what report --keep writes"):
        difference_table(published)


@pytest.mark.parametrize("lost", [{1}, {1, 3}])
def test_a_p_value_covers_the_seeds_whose_predictions_are_there(tmp_path, lost):
    for seed in (1, 2, 3):
        write_encoder_results(tmp_path / PLAIN / str(seed), PLAIN, seed, wrong=0.4)
        write_encoder_results(tmp_path / EVOLVING / str(seed), EVOLVING, seed, wrong=0.1, family="ea_transformer")
    found = Comparison.of(find_results([tmp_path]), None)
    there = {
        name: [found.results(name, "glue-toy")[seed] for seed in sorted({1, 2, 3} - lost)] for name in (PLAIN, EVOLVING)
    }
    expected = randomization_p_value(there[PLAIN], there[EVOLVING], "accuracy")
    for seed in lost:
        (tmp_path / EVOLVING / str(seed) / PREDICTIONS).unlink()
    cell = f"{expected:.3f} ({'seed 2' if len(lost) == 2 else 'seeds 2, 3'})"
    assert difference_cells(found)[EVOLVING, "glue-toy"]["p"] == cell
    published = Comparison.of(find_results(keep(found, tmp_path / "published")), None)
    assert difference_cells(published)[EVOLVING, "glue-toy"]["p"] == cell


def test_a_p_value_is_of_the_scores_that_it_was_found_of(tmp_path, comparison):
    kept = find_results(keep(comparison, tmp_path))
    for result in kept:
        if result.model == EVOLVING:  # trained anew, and kept without its baseline
            worse = {name: replace(score, score=score.score - 8) for name, score in result.scores.items()}
            replace(result, scores=worse).write()
    with pytest.raises(UserError, match=r"there is no .*predictions\.tsv"):
        difference_table(Comparison.of(find_results([tmp_path]), None))


def test_seeds_that_are_published_later_leave_the_p_value_of_the_earlier_ones(tmp_path, comparison):
    def published(*seeds: int) -> Comparison:
        keep(Comparison.of([result for result in comparison.all_results() if result.seed in seeds], None), tmp_path)
        return Comparison.of(find_results([tmp_path]), None)

    earlier, later = difference_cells(published(1, 2)), published(3)
    for task in TASKS:
        found = difference_cells(later)[EVOLVING, task]
        assert found["seeds"] == "3" and found["p"] == f"{earlier[EVOLVING, task]['p']} (seeds 1, 2)"


def test_a_page_of_sections_has_encoders_beside_translations(folder, tmp_path, monkeypatch):
    section = tmp_path / "results" / "1-glue"
    section.mkdir(parents=True)
    for place, text in ((tmp_path / "results", "# All"), (section, "## GLUE")):
        (place / "section.md").write_text(text)
    make(monkeypatch, tmp_path / "unused", "--keep", section, folder)
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    make(monkeypatch, page.parent, "--page", page, tmp_path / "results")
    text = (page.parent / "results" / "1-glue.md").read_text()
    assert "EA-BERT-Base (printed, dev)" in text and "| p |" in text
