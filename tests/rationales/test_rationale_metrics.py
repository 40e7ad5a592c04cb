"""Scores of rationales: values computed by hand, and laws."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.experiments.rationales.metrics import (
    PERCENTS,
    auprc,
    best_words,
    erasures,
    faithfulness,
    performance,
)


@st.composite
def documents(draw):
    """Gold words and scores, many of them equal."""
    size = draw(st.integers(1, 40))
    gold = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    scores = draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size))
    return np.array(gold), np.array(scores, dtype=float)


def area_by_hand(gold: np.ndarray, scores: np.ndarray) -> float:
    """Trapezoids between the points of all thresholds, from recall 0 at precision 1 to recall 1."""
    points = [(0.0, 1.0)]
    for threshold in sorted(set(scores), reverse=True):
        chosen = scores >= threshold
        hits = int((gold & chosen).sum())
        points.append((hits / gold.sum(), hits / chosen.sum()))
        if hits == gold.sum():  # scikit-learn's curve ends at full recall
            break
    pairs = pairwise(points)
    return sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairs)


def test_a_toy_document_has_the_area_that_is_computed_by_hand():
    gold = np.array([True, False, True, False])
    # Precision 1 at recall 1/2, 1/2 at recall 1/2, 2/3 at recall 1.
    assert auprc(gold, np.array([4.0, 3.0, 2.0, 1.0])) == pytest.approx(0.5 + 0.5 * (1 / 2 + 2 / 3) / 2)
    assert auprc(gold, np.ones(4)) == pytest.approx((1 + 0.5) / 2)
    assert auprc(gold, gold.astype(float)) == 1


@settings(max_examples=100)
@given(documents())
def test_areas_are_those_of_trapezoids_with_ties(document):
    gold, scores = document
    assert auprc(gold, scores) == pytest.approx(area_by_hand(gold, scores))


@settings(max_examples=50)
@given(documents())
def test_only_the_order_of_scores_counts(document):
    gold, scores = document
    for changed in (scores**3 + 5, np.exp(scores), scores / 1e6):
        assert auprc(gold, changed) == pytest.approx(auprc(gold, scores))
        assert np.array_equal(erasures(changed), erasures(scores))


@settings(max_examples=50)
@given(documents(), st.sampled_from(PERCENTS))
def test_the_best_words_are_as_many_as_asked_and_none_is_better(document, percent):
    _, scores = document
    best = best_words(scores, percent)
    exact = percent * len(scores) / 100
    assert exact <= best.sum() < exact + 1
    assert best.all() or scores[best].min() >= scores[~best].max()
    without, alone = erasures(scores)
    assert np.array_equal(without, ~alone) and (np.diff(alone.sum(axis=1)) >= 0).all()


def test_of_equal_words_the_first_are_the_best():
    assert best_words(np.array([1.0, 2.0, 1.0, 1.0]), 50).tolist() == [True, True, False, False]
    assert best_words(np.zeros(300), 1).sum() == 3  # and not 4, whatever 0.01 is as a float


def test_faithfulness_is_the_mean_drop_of_the_probability():
    shortened = np.array([[0.9, 0.8, 0.7, 0.5, 0.1], [0.2, 0.4, 0.6, 0.8, 1.0]])
    assert faithfulness(0.9, shortened) == pytest.approx((0.3, 0.3))
    assert faithfulness(0.5, np.full((2, 5), 0.5)) == (0, 0)


def test_performance_is_of_both_classes():
    found = performance(["POS", "POS", "POS", "NEG"], ["POS", "POS", "NEG", "NEG"], ["NEG", "POS"])
    assert found == pytest.approx({"F1": (2 / 3 + 4 / 5) / 2, "accuracy": 0.75})
    assert performance(["POS"], ["POS"], ["NEG", "POS"])["F1"] == 0.5
