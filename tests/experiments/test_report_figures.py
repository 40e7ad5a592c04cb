"""Figures of a report: bands of curves, grids of alpha and beta, and scores by size."""

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from drawn_figures import band as band_of
from drawn_figures import error_bars, lines
from ea_fairseq.experiments.figures import draw, literal, looks, save
from ea_fairseq.experiments.reports.alpha_beta import alpha_beta_figure, alpha_beta_grids, differences
from ea_fairseq.experiments.reports.comparison import Comparison, find_results
from ea_fairseq.experiments.reports.interactive_curves import add_band
from ea_fairseq.experiments.reports.learning_curves import POINTS, Band, band, draw_band, learning_curves
from ea_fairseq.experiments.reports.plots import MOST, apart, plots, score_by_size, shown_models
from ea_fairseq.experiments.scoring.results import Point, Score
from fake_results import EVOLVING, PLAIN, SCORE, curve, make, rewrite, write_results
from figure_texts import NAMES, texts_of, with_texts
from projects import results

CURVES = st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=6), min_size=1, max_size=4)


@given(CURVES)
def test_a_band_holds_its_curves_and_their_mean(curves):
    points = [[Point(10 * index, index, loss) for index, loss in enumerate(losses)] for losses in curves]
    found = band(points, lambda point: point.updates, lambda point: point.loss)
    assert np.all(found.low <= found.middle + 1e-9)
    assert np.all(found.middle <= found.high + 1e-9)
    assert found.x.tolist() == [10 * index for index in range(min(map(len, curves)))]
    for losses in curves:
        assert found.low[0] <= losses[0] <= found.high[0]
    if len(curves) == 1:
        assert found.middle.tolist() == curves[0]


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(2, 6)), min_size=1, max_size=4))
def test_by_the_clock_a_band_has_the_values_at_the_same_updates_and_their_mean_time(trainings):
    """However much faster one seed was trained than another, so that no second is common to both."""
    points = [[Point(10 * step, pace * step, 1 / step) for step in range(1, steps + 1)] for pace, steps in trainings]
    by_updates, by_clock = (
        band(points, x, lambda point: point.loss) for x in (lambda point: point.updates, lambda point: point.seconds)
    )
    for part in ("middle", "low", "high"):
        assert np.array_equal(getattr(by_clock, part), getattr(by_updates, part))
    pace = np.mean([pace for pace, _ in trainings])
    assert by_clock.x == pytest.approx(pace * by_updates.x / 10)


def test_a_band_of_many_points_has_as_many_as_a_figure_shows():
    long = [Point(step, step, 1 / step) for step in range(1, 5 * POINTS)]
    assert len(band([long, long], lambda point: point.updates, lambda point: point.loss).x) == POINTS


def test_without_a_common_stretch_there_is_no_band():
    early, late = [Point(1, 1, 2.0), Point(2, 2, 2.0)], [Point(5, 5, 2.0), Point(6, 6, 2.0)]
    assert band([early, late], lambda point: point.updates, lambda point: point.loss) is None
    assert band([early], lambda point: point.updates, lambda point: point.bleu) is None


def test_a_grid_has_the_models_that_differ_in_alpha_and_beta_only(tmp_path, monkeypatch):
    for alpha, beta, kernel in [(0.1, 0.1, 3), (0.1, 0.5, 3), (0.5, 0.1, 3), (0.1, 0.1, 5)]:
        settings = {"ea_alpha": alpha, "ea_beta": beta, "ea_kernel_size": kernel}
        name = f"{alpha} {beta} {kernel}"
        write_results(tmp_path / "in" / name, name, settings=settings)
    comparison = Comparison.of(find_results([tmp_path]), SCORE)
    (grid,) = alpha_beta_grids(comparison, "multi30k-deen")
    assert sorted(result.model for result in grid) == ["0.1 0.1 3", "0.1 0.5 3", "0.5 0.1 3"]
    assert "figures/multi30k-deen-alpha-beta-1.svg" in make(monkeypatch, tmp_path / "out", tmp_path / "in")


def test_a_grid_does_not_mix_trainings_that_differ_in_more(tmp_path):
    for rate in ("1e-3", "5e-4"):
        for beta in (0.1, 0.5):
            name = f"{EVOLVING} --lr {rate} --ea-beta {beta}"
            command = f"fairseq-train {rate} --arch {EVOLVING} --lr 1 --ea-beta {beta} --seed 1 --lr {rate}"
            settings = {"ea_alpha": 0.1, "ea_beta": beta}
            write_results(tmp_path / name, name, settings=settings, training_command=command)
    grids = alpha_beta_grids(Comparison.of(find_results([tmp_path]), SCORE), "multi30k-deen")
    assert [len(grid) for grid in grids] == [2, 2]
    assert differences(grids) == [["--lr 1e-3"], ["--lr 5e-4"]]


def test_a_cell_has_the_score_of_its_alpha_and_beta(tmp_path):
    scores = {(0.1, 0.1): 20.0, (0.1, 0.5): 21.0, (0.1, 0.9): 22.0, (0.4, 0.1): 23.0, (0.4, 0.9): 25.0}
    grid = [
        replace(results(tmp_path, "", 1, score), settings={"ea_alpha": alpha, "ea_beta": beta})
        for (alpha, beta), score in scores.items()
    ]
    panel = alpha_beta_figure(grid, SCORE).axes[0]
    axes = (panel.xaxis, panel.yaxis)
    alphas, betas = ([float(label.get_text()) for label in axis.get_ticklabels()] for axis in axes)
    assert (alphas, betas) == ([0.1, 0.4], [0.1, 0.5, 0.9]) and panel.get_ylim()[0] < panel.get_ylim()[1]
    texts = {text.get_position(): text.get_text() for text in panel.texts}
    assert {(alphas[x], betas[y]): text for (x, y), text in texts.items()} == {
        place: f"{score:.2f}" for place, score in scores.items()
    }
    cells = np.ndenumerate(panel.images[0].get_array().filled(np.nan))
    assert {(alphas[x], betas[y]): value for (y, x), value in cells if not np.isnan(value)} == scores


@pytest.mark.parametrize(("unit", "seconds", "pace"), [("minutes", 60, 1.7), ("hours", 3600, 2.1)])
def test_curves_are_of_what_they_are_called_by_updates_and_by_the_clock(tmp_path, unit, seconds, pace):
    training, validation = curve(3, 40, pace), curve(5, 16, 2.5 * pace, bleu=40)
    found = replace(results(tmp_path, PLAIN, 1, 20.0), train_curve=training, valid_curve=validation)
    comparison = Comparison.of([found], SCORE)
    expected = {
        "training-loss": [(point, point.loss) for point in training],
        "validation-loss": [(point, point.loss) for point in validation],
        "validation-bleu": [(point, point.bleu) for point in validation],
    }
    for name, points in expected.items():
        by_updates, by_clock = learning_curves(comparison, "toy", [PLAIN], name).axes
        assert lines(by_updates) == [[(point.updates, value) for point, value in points]]
        assert lines(by_clock) == [[(point.seconds / seconds, value) for point, value in points]]
        assert by_clock.get_xlabel() == f"wall-clock ({unit})"
        assert by_updates.get_ylabel().startswith(name.replace("-", " ").replace("bleu", "BLEU"))


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_a_curve_leaves_out_what_is_not_finite(tmp_path, unknown):
    points = curve(3, 40, 1.7)
    broken = [*points[:-1], replace(points[-1], loss=unknown)]
    found = replace(results(tmp_path, PLAIN, 1, 20.0), train_curve=broken, valid_curve=broken[-1:])
    comparison = Comparison.of([found], SCORE)
    by_updates, _ = learning_curves(comparison, "toy", [PLAIN], "training-loss").axes
    assert lines(by_updates) == [[(point.updates, point.loss) for point in points[:-1]]]
    assert learning_curves(comparison, "toy", [PLAIN], "validation-loss") is None


def test_a_band_is_drawn_from_the_lowest_to_the_highest():
    x, middle, low, high = (np.array(numbers) for numbers in ([1.0, 2.0], [5.0, 6.0], [2.0, 3.0], [7.0, 9.0]))
    around, style = Band(x, middle, low, high), looks(["a"])["a"]
    panel, interactive = Figure().subplots(), go.Figure()
    draw_band(panel, around, "a", style)
    add_band(interactive, around, "a", style)
    line, edge = interactive.data
    assert lines(panel) == [list(zip(line.x, line.y, strict=True))] == [[(1, 5), (2, 6)]]
    assert band_of(panel.collections[0]) == {1: (2, 7), 2: (3, 9)}
    assert sorted(zip(edge.x, edge.y, strict=True)) == [(1, 2), (1, 7), (2, 3), (2, 9)]


@pytest.mark.parametrize(("score", "sign"), [(SCORE, -1), ("accuracy", -1), ("TER", 1), ("perplexity", 1), ("RMSE", 1)])
def test_a_figure_names_the_baseline_and_the_best_of_many(tmp_path, score, sign):
    models = [f"model {number:02}" for number in range(MOST + 1)]
    for place, model in enumerate([*models, PLAIN]):
        rewrite(write_results(tmp_path / model, model).folder, scores={score: Score(50 + sign * place, "", "")})
    shown = shown_models(Comparison.of(find_results([tmp_path]), score), "multi30k-deen")
    assert shown == [PLAIN, *models[: MOST - 1]]


def test_scores_are_drawn_by_size_where_there_are_several_sizes(tmp_path):
    write_results(tmp_path / PLAIN, PLAIN)
    write_results(tmp_path / EVOLVING, EVOLVING)
    one_size = Comparison.of(find_results([tmp_path]), SCORE)
    assert score_by_size(one_size, "multi30k-deen", one_size.models) is None
    write_results(tmp_path / "base", "transformer_base", arch="transformer", parameters=44_138_496)
    two_sizes = Comparison.of(find_results([tmp_path]), SCORE)
    assert "multi30k-deen-parameters" in [name for name, _, _ in plots(two_sizes)]


def test_bars_by_size_are_a_deviation_long_on_both_sides(tmp_path):
    models = {"small": (2_000_000, (20.0, 22.0, 27.0)), "large": (6_000_000, (30.0, 31.0))}
    comparison = Comparison.of(
        [
            replace(results(tmp_path, model, seed, score), parameters=size)
            for model, (size, scores) in models.items()
            for seed, score in enumerate(scores)
        ],
        SCORE,
    )
    panel = score_by_size(comparison, "toy", list(models)).axes[0]
    for drawn, (size, scores) in zip(panel.containers, models.values(), strict=True):
        (bar,) = error_bars(drawn)
        mean, deviation = fmean(scores), stdev(scores)
        assert bar == [[size / 1e6, pytest.approx(end)] for end in (mean - deviation, mean + deviation)]
        assert drawn.lines[0].get_xydata().tolist() == [[size / 1e6, pytest.approx(mean)]]


@given(st.lists(st.floats(0, 1), max_size=10).map(sorted))
def test_labels_keep_apart_on_the_axis_and_in_order(places):
    found = apart(places, 0.09)
    assert all(above - below >= 0.09 - 1e-9 for below, above in pairwise(found))
    assert all(0 <= place <= 1 for place in found)
    if all(above - below >= 0.09 for below, above in pairwise(places)):
        assert found == places


@given(text=st.text("$\\^_{}ax", min_size=1, max_size=8))
def test_a_literal_text_is_drawn_letter_by_letter(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("figures")
    with with_texts():
        figure = Figure(figsize=(1, 1))
        figure.text(0, 0, literal(text))
        assert texts_of(save(figure, folder / "a", ("svg",))[0]) == {text}


def test_names_of_models_are_drawn_as_they_are(tmp_path):
    for number, name in enumerate(NAMES, 1):
        write_results(tmp_path / name, name, parameters=10**6 * number)
    comparison = Comparison.of(find_results([tmp_path]), SCORE)
    with with_texts():
        drawn = draw(plots(comparison), tmp_path / "figures", kinds=("svg",))
    assert {path.stem for path, _ in drawn} >= {"multi30k-deen-training-loss", "multi30k-deen-parameters"}
    for path, _ in drawn:
        assert {*NAMES} <= texts_of(path)
