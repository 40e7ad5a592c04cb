"""scripts/report.py: a page and tables of results, and a sentence where these do not go together."""

import csv
import io
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison, Spread, find_results
from ea_fairseq.experiments.reports.comparison_table import (
    ONE_SEED,
    OTHER_MANIFESTS,
    OTHER_SEEDS,
    comparison_table,
    notes,
    signed,
    spread,
)
from ea_fairseq.experiments.reports.seed_range import seed_range
from ea_fairseq.experiments.scoring.results import COUNTS, NAME, REFERENCE, TRANSLATION, Dataset, Results
from ea_fairseq.experiments.scoring.significance import p_value
from ea_fairseq.experiments.tables import NONE, Code, Table, latex, markdown
from fake_results import EVOLVING, PLAIN, SCORE, make, rewrite, write_results
from projects import results


def table_of(*places, score: str = SCORE, **options) -> dict[str, dict[str, str]]:
    """The cells of a comparison by model and column."""
    table = comparison_table(Comparison.of(find_results(places), score, **options))
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}


def number(cell: str) -> float:
    return float(cell.split()[0].replace("\u2212", "-"))


def test_scores_are_means_over_seeds_and_differences_are_between_common_ones(two_models):
    results = {(result.model, result.seed): result for result in find_results([two_models])}
    scores = {key: result.scores[SCORE].score for key, result in results.items()}
    cells = table_of(two_models)
    plain = [scores[PLAIN, seed] for seed in (1, 2, 3)]
    assert cells[PLAIN][SCORE] == f"{statistics.fmean(plain):.2f} ± {statistics.stdev(plain):.2f}"
    assert cells[PLAIN]["seeds"] == "3"
    differences = [scores[EVOLVING, seed] - scores[PLAIN, seed] for seed in (1, 3)]
    expected = f"{statistics.fmean(differences):+.2f} ± {statistics.stdev(differences):.2f}"
    assert cells[EVOLVING]["difference"] == expected
    p_values = [p_value(results[PLAIN, seed], results[EVOLVING, seed], SCORE) for seed in (1, 3)]
    assert cells[EVOLVING]["p"] == " / ".join(f"{p:.3f}" for p in p_values)


def test_a_difference_turns_its_sign_with_the_baseline(two_models):
    forth = table_of(two_models, baseline=PLAIN)[EVOLVING]["difference"]
    back = table_of(two_models, baseline=EVOLVING)[PLAIN]["difference"]
    assert number(forth) == -number(back) > 0
    assert forth.split("±")[1] == back.split("±")[1]


@pytest.mark.parametrize("score", [SCORE, "BLEU", "chrF", "TER"])
def test_p_values_tell_the_same_from_the_different(two_models, score):
    plain, evolving = (Results.read(two_models / name) for name in ("plain-1", "evolving-1"))
    assert p_value(plain, plain, score) == 1
    assert p_value(plain, evolving, score) < 0.01


def test_of_a_training_that_was_released_its_own_evaluation_counts(two_models, tmp_path):
    shutil.copytree(two_models, tmp_path / "runs")
    shutil.copytree(two_models / "plain-1", tmp_path / "runs" / "plain-1" / "released")
    assert len(find_results([tmp_path / "runs"])) == len(find_results([two_models]))
    assert len(find_results([tmp_path / "runs" / "plain-1" / "released" / "results.json"])) == 1


def test_without_a_difference_of_scores_there_is_no_significance(tmp_path):
    hopeless = [write_results(tmp_path / str(seed), seed=seed, wrong=1.0) for seed in (2, 3)]
    assert hopeless[0].raw()[0] != hopeless[1].raw()[0]
    assert [results.scores[SCORE].score for results in hopeless] == [0, 0]
    assert p_value(*hopeless, SCORE) == 1


def test_all_forms_of_a_table_have_the_same_cells(two_models, tmp_path, monkeypatch):
    written = make(monkeypatch, tmp_path / "out", two_models)
    table = comparison_table(Comparison.of(find_results([two_models]), SCORE))
    expected = [table.header, *table.rows]
    rows = [line.strip("| ").split(" | ") for line in written["table.md"].decode().split("\n\n")[0].splitlines()]
    assert [rows[0], *rows[2:]] == expected
    assert list(csv.reader(io.StringIO(written["table.csv"].decode()))) == expected
    for note in table.notes:
        assert latex(note) in written["table.tex"].decode()
    lines = [line.partition(r" \\")[0] for line in written["table.tex"].decode().splitlines() if " & " in line]
    assert [line.split(" & ") for line in lines] == [list(map(latex, row)) for row in expected]
    page = written["report.html"].decode()
    for tag, row in zip(["th", *["td"] * len(table.rows)], expected, strict=True):
        assert "".join(f"<{tag}>{cell}</{tag}>" for cell in row) in page


@given(st.text("ab\\~^&%$#_{}±|<> ", max_size=20))
def test_latex_has_no_character_left_that_means_something_else(text):
    commands = re.sub(
        r"\\(text(backslash|asciitilde|asciicircum|bar|less|greater))\{\}|\$\\pm\$|\\[&%$#_{}]", "", latex(text)
    )
    assert not set(commands) & set("\\~^&%$#_{}±|<>")


@given(st.text("ab1\\`*_~<>[]()|$&#;!+-. ", max_size=20))
def test_markdown_has_no_character_left_that_means_something_else(text):
    escaped = markdown(text)
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", escaped) == text.lstrip()
    left = re.sub(r"\\.", " ", escaped)
    assert not set(left) & set("\\`*~<[]$") and not re.search(r"&#?\w+;", left)
    assert not re.match(r"[#>]|[-+](\s|$)|--|\d+[.)](\s|$)", escaped)
    assert not re.search(r"(?<!\w)_|_(?!\w)", left)  # between letters it is no emphasis


def test_names_are_text_in_markdown_and_code_is_code():
    table = Table(["<b>", "p|q"], [["ea_lite [x](javascript:y)", Code("a|b_")]], ["*c* `d`, nrefs:1|case:mixed"])
    header, _, row, _, note = table.markdown().splitlines()
    assert header == r"| \<b> | p\|q |"
    assert row == r"| ea_lite \[x\](javascript:y) | `a\|b_` |"
    assert note == r"\*c\* \`d\`, nrefs:1|case:mixed"


def test_the_order_of_arguments_changes_no_byte(two_models, tmp_path, monkeypatch):
    folders = sorted(two_models.iterdir())
    forth = make(monkeypatch, tmp_path / "forth", *folders)
    back = make(monkeypatch, tmp_path / "back", *reversed(folders), two_models / ".." / two_models.name)
    assert forth == back


def test_seeds_of_one_model_have_the_same_settings(tmp_path):
    write_results(tmp_path / "a", EVOLVING, 1, settings={"ea_alpha": 0.1, "dropout": 0.3})
    write_results(tmp_path / "b", EVOLVING, 2, settings={"ea_alpha": 0.5, "dropout": 0.3})
    with pytest.raises(UserError, match=r"a and .*b are both called ea_transformer_lite and differ in ea_alpha: name"):
        Comparison.of(find_results([tmp_path]), SCORE)
    write_results(tmp_path / "c", EVOLVING, 3, settings={"ea_alpha": 0.5, "dropout": 0.3, "a_later_option": True})
    assert Comparison.of(find_results([tmp_path / "b", tmp_path / "c"]), SCORE).models == [EVOLVING]


def test_scores_against_other_references_are_not_compared(tmp_path):
    write_results(tmp_path / "a", PLAIN)
    write_results(tmp_path / "b", EVOLVING)
    Comparison.of(find_results([tmp_path]), SCORE)
    text = (tmp_path / "b" / REFERENCE).read_text()
    (tmp_path / "b" / REFERENCE).write_text(text.replace("dog", "cat"))
    with pytest.raises(UserError, match=r"scored against different references: evaluate both with"):
        Comparison.of(find_results([tmp_path]), SCORE)


@given(st.floats(-0.01, 0.01))
def test_zero_has_no_minus(mean):
    assert (spread(Spread.of([mean])) == "0.00") == (signed(Spread.of([mean])) == "+0.00") == (round(mean, 2) == 0)


@pytest.mark.parametrize(
    ("dataset", "scores"),
    [
        ("iwslt14-deen", ["33.32", "34.55"]),
        ("wmt14-ende", ["21.11", "27.47"]),
        ("wmt14-enfr", ["33.22", "40.79"]),
        ("multi30k-deen", []),
    ],
)
def test_the_papers_figures_stand_beside_ours_on_the_papers_data(tmp_path, dataset, scores):
    data = Dataset(dataset, None, None, "test", None, "")
    found = [replace(results(tmp_path, model, 1, 1.0), dataset=data) for model in (PLAIN, "transformer_base")]
    table = comparison_table(Comparison.of(found, SCORE))
    papers = [name for name in table.header if name.endswith("(paper)")]
    assert len(papers) == (3 if scores else 0) and len({*table.header}) == len(table.header)
    if scores:
        assert [row[table.header.index(f"{SCORE} (paper)")] for row in table.rows] == scores
        assert {"2.48M", "158.31M"} <= set(table.rows[0])


def test_a_model_is_compared_with_the_plain_one_of_its_size(tmp_path):
    sizes = {"transformer_base": 44_138_496, "ea_transformer_base": 44_149_008, PLAIN: 2_482_560, EVOLVING: 2_485_224}
    for model, size in sizes.items():
        arch = model if model.startswith("ea_") else "transformer"
        write_results(tmp_path / model, model, parameters=size, arch=arch)
    comparison = Comparison.of(find_results([tmp_path]), SCORE)
    of = {model: comparison.baseline_of(model, "multi30k-deen") for model in sizes}
    assert of == {"transformer_base": None, "ea_transformer_base": "transformer_base", PLAIN: None, EVOLVING: PLAIN}
    assert comparison.models == [PLAIN, "transformer_base", EVOLVING, "ea_transformer_base"]
    shutil.rmtree(tmp_path / "transformer_base")
    alone = Comparison.of(find_results([tmp_path]), SCORE)
    assert alone.baseline_of("ea_transformer_base", "multi30k-deen") is None


def test_of_a_data_set_that_a_model_has_not_seen_its_cells_are_empty(tmp_path):
    for dataset, models in (("one", (PLAIN, EVOLVING)), ("other", (PLAIN,))):
        for seed, model in ((seed, model) for model in models for seed in (1, 2)):
            write_results(tmp_path / f"{dataset}-{model}-{seed}", model, seed, dataset=dataset)
    cells = table_of(tmp_path)[EVOLVING]
    assert {cells[f"other: {column}"] for column in (SCORE, "seeds", "difference", "p")} == {NONE}
    assert NONE not in {cells[f"one: {column}"] for column in (SCORE, "seeds", "difference", "p")}


def test_p_values_are_of_the_seed_that_the_table_names(tmp_path, monkeypatch):
    plain = write_results(tmp_path / PLAIN, PLAIN, wrong=0.22)
    evolving = write_results(tmp_path / EVOLVING, EVOLVING, seed=2, wrong=0.2)
    expected = p_value(plain, evolving, SCORE)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    assert p_value(plain, evolving, SCORE) == expected
    assert any("random seed 12345" in note for note in notes(Comparison.of([plain, evolving], SCORE), {}, True, True))


def test_of_one_seed_of_each_a_table_tells_no_difference(tmp_path, monkeypatch):
    for seed, model, wrong in ((1, PLAIN, 0.3), (1, EVOLVING, 0.1), (2, EVOLVING, 0.1)):
        write_results(tmp_path / "in" / f"{model}-{seed}", model, seed, wrong=wrong)
    one_each = Comparison.of(find_results([tmp_path / "in" / f"{model}-1" for model in (PLAIN, EVOLVING)]), SCORE)
    table = comparison_table(one_each)
    assert not {"difference", "p", OTHER_SEEDS} & {*table.header}
    assert ONE_SEED in table.notes
    assert not any("bootstrap" in note for note in table.notes)
    assert {row[-1] for row in table.rows} == {"1"}
    cells = table_of(tmp_path / "in")
    assert cells[EVOLVING]["seeds"] == "2"
    assert cells[EVOLVING]["difference"] == cells[EVOLVING]["p"] == NONE


def test_models_of_one_seed_are_not_ranked_without_a_baseline_either(tmp_path):
    for model in ("realformer_lite", EVOLVING):
        write_results(tmp_path / model, model, arch=EVOLVING)
    assert ONE_SEED in comparison_table(Comparison.of(find_results([tmp_path]), SCORE)).notes
    write_results(tmp_path / "again", EVOLVING, seed=2)
    assert ONE_SEED not in comparison_table(Comparison.of(find_results([tmp_path]), SCORE)).notes


def test_several_manifests_of_one_data_set_are_explained(tmp_path):
    data = write_results(tmp_path / "1", seed=1).dataset
    assert OTHER_MANIFESTS not in comparison_table(Comparison.of(find_results([tmp_path]), SCORE)).notes
    write_results(tmp_path / "2", seed=2, data=replace(data, manifest="c" * 64))
    assert OTHER_MANIFESTS in comparison_table(Comparison.of(find_results([tmp_path]), SCORE)).notes


def test_one_core_is_not_plural_in_early_results(tmp_path):
    write_results(tmp_path / "1")
    rewrite(tmp_path / "1", device="AMD EPYC, 1 cores, 1 thread", training_device="GPU, 21 cores")
    found = Results.read(tmp_path / "1")
    assert (found.device, found.training_device) == ("AMD EPYC, 1 core, 1 thread", "GPU, 21 cores")


def test_beside_one_seed_stand_the_published_ones_of_the_same_training(tmp_path, monkeypatch):
    for seed in (1, 2, 3):
        write_results(tmp_path / "published" / str(seed), PLAIN, seed, wrong=0.1 * seed)
    write_results(tmp_path / "published" / "longer", PLAIN, 4, wrong=0.9, updates=9000)
    rewrite(write_results(tmp_path / "published" / "other", PLAIN, 5, wrong=0.9).folder, recipe="another", seed=4)
    monkeypatch.setattr(
        "ea_fairseq.experiments.reports.seed_range.published", lambda: find_results([tmp_path / "published"])
    )
    scores = [result.scores[SCORE].score for result in find_results([tmp_path / "published"]) if result.seed < 4]
    shutil.copytree(tmp_path / "published" / "1", tmp_path / "published" / "another section")
    alone = write_results(tmp_path / "in" / "plain", PLAIN, 5, wrong=0.5)
    write_results(tmp_path / "in" / "evolving", EVOLVING, 5)
    cells = table_of(tmp_path / "in")
    assert cells[PLAIN][OTHER_SEEDS] == f"{min(scores):.2f} to {max(scores):.2f}"
    assert seed_range(alone, SCORE).seeds == 3
    assert cells[EVOLVING][OTHER_SEEDS] == NONE
    write_results(tmp_path / "in" / "plain again", PLAIN, 6)
    assert OTHER_SEEDS not in table_of(tmp_path / "in")[PLAIN]


def break_json(folder):
    (folder / "evolving-1" / NAME).write_text("{}")


def twice(folder):
    shutil.copytree(folder / "plain-1", folder / "again")


def other_data(folder):
    rewrite(folder / "plain-1", dataset=Dataset("multi30k-deen", "de", "en", "test", None, "d" * 64))


def other_subset(folder):
    rewrite(folder / "plain-1", dataset=Dataset("multi30k-deen", "de", "en", "valid", None, "e" * 64))


def other_model(folder):
    rewrite(folder / "plain-1", parameters=1)


def no_output(folder):
    (folder / "evolving-1" / COUNTS).unlink()
    (folder / "evolving-1" / TRANSLATION.replace(".txt", ".tok.txt")).unlink()


def other_output(folder):
    (folder / "evolving-1" / TRANSLATION.replace(".txt", ".tok.txt")).write_text("a b c d\n" * 40)


def no_common_seed(folder):
    for name in ("plain-1", "plain-3"):
        shutil.rmtree(folder / name)


def no_score(folder):
    rewrite(folder / "plain-1", scores={})


def nothing(folder):
    for name in folder.iterdir():
        shutil.rmtree(name)


@pytest.mark.parametrize(
    ("spoil", "options", "culprit"),
    [
        (nothing, [], "evaluate a model first"),
        (break_json, [], "evolving-1/results.json"),
        (twice, [], "again"),
        (other_data, [], "different data"),
        (other_subset, [], "translates valid"),
        (other_model, [], "different models"),
        (no_output, [], "evolving-1/translation.tok.txt"),
        (other_output, [], "evolving-1"),
        (no_common_seed, [], "no seed in common"),
        (no_score, [], "no score 'tokenized BLEU'"),
        (lambda folder: None, ["--score", "METEOR"], "no score 'METEOR'"),
        (lambda folder: None, ["--baseline", "marian"], "no results of marian"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(two_models, tmp_path, monkeypatch, spoil, options, culprit):
    folder = tmp_path / "results"
    shutil.copytree(two_models, folder)
    spoil(folder)
    with pytest.raises(UserError, match=re.escape(culprit)) as refused:
        make(monkeypatch, tmp_path / "out", folder, *options)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_it_runs_without_torch_from_any_folder(two_models, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('report.py imports torch')")
    command = [sys.executable, ROOT / "scripts" / "report.py", "--out", "my report", two_models]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    made = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "ea_transformer_lite" in made.stdout
    assert (tmp_path / "my report" / "report.html").is_file()
    missing = subprocess.run([*command[:-1], "nowhere"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "nowhere" in missing.stderr
