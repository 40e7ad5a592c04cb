"""Learning curves from train.log, whatever has happened to the training."""

import json
from dataclasses import asdict
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.experiments.runs.training_log import MOST_POINTS, NAME, curves
from ea_fairseq.experiments.scoring.results import LARGEST, Point


def interval(updates: int, seconds: int, loss: float) -> str:
    entry = {"epoch": 1, "update": 0.5, "loss": loss, "num_updates": updates, "train_wall": 3, "wall": seconds}
    return json.dumps({name: str(value) for name, value in entry.items()})


def validation(updates: int, loss: float, **bleu: float) -> str:
    entry = {"epoch": 1, "valid_loss": loss, **bleu, "valid_num_updates": updates, "valid_best_loss": loss}
    return json.dumps({name: str(value) for name, value in entry.items()})


def end_of_epoch(updates: int, seconds: int) -> str:
    entry = {"epoch": 1, "train_loss": 9, "train_num_updates": updates, "train_train_wall": 3, "train_wall": seconds}
    return json.dumps({name: str(value) for name, value in entry.items()})


def curves_of(folder: Path, *lines: str) -> tuple[list[Point], list[Point]]:
    (folder / NAME).write_text("".join(lines), encoding="utf-8")
    return curves(folder)


def test_a_folder_without_a_log_has_empty_curves(tmp_path):
    assert curves(tmp_path) == ([], [])


def test_a_validation_beyond_a_resumption_is_forgotten(tmp_path):
    first = [interval(500, 20, 9), validation(500, 5), interval(1000, 40, 8), validation(1000, 4)]
    train, valid = curves_of(
        tmp_path, *(f"{line}\n" for line in (*first, interval(600, 25, 8.5), interval(700, 30, 8.2)))
    )
    assert [point.updates for point in train] == [500, 600, 700]
    assert [point.updates for point in valid] == [500]


def test_starts_are_joined_and_what_a_resumption_repeats_counts_once(tmp_path):
    first = ["{'_name': None}", interval(10, 20, 9.5), interval(20, 41, 8), validation(25, 7, valid_bleu=1.5)]
    first += [validation(25, 7, valid_bleu=1.5), end_of_epoch(25, 60), "Start iterating over samples"]
    first += [interval(30, 70, 6.5), interval(40, 90, 6)]
    resumed = ["{'_name': None}", interval(30, 68, 6.25), "end of epoch 2", validation(50, 5), end_of_epoch(50, 99)]
    train, valid = curves_of(tmp_path, "\n".join([*first, interval(50, 110, 5.5)[:-9], *resumed]))
    assert train == [Point(10, 20, 9.5), Point(20, 41, 8), Point(30, 68, 6.25)]
    assert valid == [Point(25, 60, 7, 1.5), Point(50, 99, 5)]


def test_a_start_that_counts_seconds_anew_follows_the_one_before(tmp_path):
    first = [interval(10, 50, 9), validation(15, 8), end_of_epoch(15, 60), interval(20, 90, 8)]
    second = [interval(20, 20, 8), interval(30, 45, 7), validation(30, 6), end_of_epoch(30, 49)]
    third = [interval(40, 30, 6), validation(45, 5), end_of_epoch(45, 39)]
    train, valid = curves_of(tmp_path, "\n".join([*first, *second, *third]))
    assert train == [Point(10, 50, 9), Point(20, 80, 8), Point(30, 105, 7), Point(40, 139, 6)]
    assert valid == [Point(15, 60, 8), Point(30, 109, 6), Point(45, 148, 5)]


def test_a_validation_within_an_epoch_has_the_time_of_the_interval_before_it(tmp_path):
    lines = [interval(10, 20, 9.5), validation(12, 7), interval(20, 41, 8), end_of_epoch(25, 60)]
    assert curves_of(tmp_path, "\n".join(lines))[1] == [Point(12, 20, 7)]


def test_a_point_for_each_of_many_updates_makes_no_results_that_cannot_be_read(tmp_path):
    """--log-interval 1 over many updates once made a results.json of more bytes than are read."""
    updates = range(1, 2 * MOST_POINTS + 6)
    train, _ = curves_of(tmp_path, *(interval(update, update, 9) + "\n" for update in updates))
    assert [point.updates for point in train] == list(updates)[-1::-3][::-1]
    size = len(json.dumps([asdict(point) for point in train], indent=1))
    assert size * MOST_POINTS / len(train) < LARGEST / 4


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60)), max_size=8), st.integers(0, 400))
def test_curves_go_up_in_updates_and_time_wherever_a_log_is_cut(tmp_path_factory, starts, cut):
    folder = tmp_path_factory.mktemp("log")
    lines = [
        line
        for first, more in starts
        for updates in range(first, first + more, 5)
        for line in (interval(updates, updates, 1), validation(updates, 1), end_of_epoch(updates, updates))
    ]
    text = "\n".join(lines)
    for curve in curves_of(folder, text[:cut], text):
        updates = [point.updates for point in curve]
        assert updates == sorted(set(updates))
        seconds = [point.seconds for point in curve]
        assert seconds == sorted(seconds)
