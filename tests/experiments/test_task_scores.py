"""Scores of encoders against their definitions, and the test of differences against all exchanges that there are."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.reports.task_table import difference_table
from ea_fairseq.experiments.scoring.randomization import OtherExamplesError, randomization_p_value, scores_of
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Results, read_predictions
from ea_fairseq.experiments.scoring.task_scores import METRICS, task_score
from fake_encoder_results import write_encoder_results

binary = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)
numbers = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=3, max_size=30)


def score(name: str, pairs: list[tuple]) -> float:
    labels, predictions = (tuple(map(str, column)) for column in zip(*pairs, strict=True))
    return task_score(name, labels, predictions).score


def ratio(over: float, under: float) -> float:
    """Zero where nothing is to be divided by."""
    return 100 * over / under if under else 0.0


@settings(max_examples=50)
@given(binary)
def test_scores_of_labels_are_what_the_confusion_matrix_says(pairs):
    right_1, wrong_0, wrong_1, right_0 = (pairs.count(pair) for pair in ((1, 1), (1, 0), (0, 1), (0, 0)))
    assert score("accuracy", pairs) == pytest.approx(ratio(right_0 + right_1, len(pairs)), abs=0.006)
    assert score("F1", pairs) == pytest.approx(ratio(2 * right_1, 2 * right_1 + wrong_0 + wrong_1), abs=0.006)
    sides = (right_1 + wrong_1) * (right_1 + wrong_0) * (right_0 + wrong_1) * (right_0 + wrong_0)
    correlation = ratio(right_1 * right_0 - wrong_1 * wrong_0, sides**0.5)
    assert score("Matthews", pairs) == pytest.approx(correlation, abs=0.006)


def correlation(first, second) -> float:
    first, second = (np.asarray(side, dtype=float) - np.mean(side) for side in (first, second))
    return ratio((first * second).sum(), ((first**2).sum() * (second**2).sum()) ** 0.5)


@settings(max_examples=50)
@given(numbers)
def test_correlations_of_scores_are_those_of_values_and_of_ranks(pairs):
    columns = list(zip(*pairs, strict=True))
    assert score("Pearson", pairs) == pytest.approx(correlation(*columns), abs=0.006)
    assert score("Spearman", pairs) == pytest.approx(correlation(*map(rankdata, columns)), abs=0.006)


@pytest.mark.parametrize("name", ["RMSE", "perplexity", "Pearson"])
@pytest.mark.parametrize("diverged", [math.nan, math.inf])
def test_predictions_that_are_no_numbers_have_no_score(name, diverged):
    with pytest.raises(ValueError, match="not finite"):
        score(name, [(1, 1.0), (2, 2.0), (3, diverged)])


def test_perplexity_weighs_blocks_by_their_masked_words():
    assert score("perplexity", [(1, 4.0), (3, 0.0)]) == 2.0
    assert score("perplexity", [(0, 0.0), (2, 6.0)]) == 8.0


def test_predictions_that_are_all_alike_score_zero_and_the_detail_says_so():
    for name in ("Pearson", "Spearman", "Matthews"):
        found = task_score(name, ("0", "1", "1"), ("1", "1", "1"))
        assert found.score == 0 and found.detail == "3 examples, all predictions equal"
    assert "scikit-learn" in METRICS["F1"].signature and "scipy" in METRICS["Pearson"].signature


@settings(max_examples=6)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=5), min_size=5, max_size=5),
    st.sampled_from(["accuracy", "Matthews", "F1", "Spearman", "top-1", "top-5"]),
)
@example([[0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]], "Matthews")
@example([[0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]], "top-1")
def test_p_is_the_part_of_all_exchanges_that_make_as_large_a_difference(tmp_path_factory, drawn, name):
    """With five examples there are 32 exchanges, which are few enough to try them all."""
    folder = tmp_path_factory.mktemp("results")
    labels, *rows = [list(map(str, row)) for row in drawn]
    plain, evolving = rows[:2], rows[2:]
    sides = [
        [
            write_encoder_results(folder / side / str(seed), side, seed, labels=labels, predictions=row, names=(name,))
            for seed, row in enumerate(side_rows)
        ]
        for side, side_rows in (("plain", plain), ("evolving", evolving))
    ]
    metric = METRICS[name]

    def score_of(predictions) -> float:
        return metric.count(metric.read(labels), metric.read(predictions))

    def difference(exchanged) -> float:
        scores = []
        for first, second in zip(plain, evolving, strict=True):
            pair = [b if swap else a for a, b, swap in zip(first, second, exchanged, strict=True)]
            other = [a if swap else b for a, b, swap in zip(first, second, exchanged, strict=True)]
            scores.append(score_of(other) - score_of(pair))
        return abs(np.mean(scores))

    observed = difference([False] * 5)
    expected = np.mean([difference(swaps) >= observed - 1e-9 for swaps in product((False, True), repeat=5)])
    assert randomization_p_value(*sides, name) == pytest.approx(min(1.0, expected), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "labels", "predictions"),
    [
        ("F1", [1, 2, 2, 1], [2, 2, 1, 1]),
        ("Matthews", [0, 0, 1, 1], [0, 2, 2, 0]),
        ("Matthews", [0, 0, 1, 1], [0, 1, 1, 0]),
    ],
)
def test_many_predictions_are_scored_as_one_is(name, labels, predictions):
    found = scores_of(name, np.array(labels), np.array([predictions, labels]))
    pairs = zip(labels, predictions, strict=True)
    assert found == pytest.approx([score(name, list(pairs)), 100.0], abs=0.006)


def test_seeds_with_validation_sets_of_their_own_have_differences_and_no_p(tmp_path):
    labels = {1: list("0110100110"), 2: list("1001101010")}
    families = {"bert_mini": None, "ea_bert_mini": "ea_transformer"}

    def write(model: str, seed: int) -> Results:
        folder = tmp_path / f"{model} {seed}"
        return write_encoder_results(folder, model, seed, labels=labels[seed], family=families[model])

    sides = [[write(model, seed) for seed in labels] for model in families]
    with pytest.raises(OtherExamplesError, match="with --split-seed all seeds have the same"):
        randomization_p_value(*sides, "accuracy")
    table = difference_table(Comparison.of([*sides[0], *sides[1]]))
    assert any("each seed has other examples" in cell for row in table.rows for cell in row)


def test_models_that_are_not_scored_on_the_same_examples_are_not_compared(tmp_path):
    results = [write_encoder_results(tmp_path / str(seed), "a", seed) for seed in (1, 2)]
    labels, predictions = read_predictions(results[0].folder)
    other = write_encoder_results(tmp_path / "b", "b", 3, labels=labels[::-1], predictions=predictions)
    with pytest.raises(UserError, match="were scored on different examples: evaluate both again"):
        randomization_p_value([results[0]], [other], "accuracy")
    altered = replace(results[1], scores={"accuracy": replace(results[1].scores["accuracy"], score=1.0)})
    with pytest.raises(UserError, match=r"and results\.json says 1\.00 accuracy: evaluate the model again"):
        randomization_p_value([results[0]], [altered], "accuracy")


@pytest.mark.parametrize("text", ["", "label\tprediction\n", "label\tprediction\n1\n", "a\tb\n1\t2\t3\n", "\xff"])
def test_a_file_that_is_not_ours_is_named(tmp_path: Path, text):
    (tmp_path / PREDICTIONS).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=f"{tmp_path / PREDICTIONS} is not what ea-fairseq evaluate writes"):
        read_predictions(tmp_path)
    (tmp_path / PREDICTIONS).unlink()
    with pytest.raises(UserError, match=r"keep it next to .*, or evaluate the model again"):
        read_predictions(tmp_path)
