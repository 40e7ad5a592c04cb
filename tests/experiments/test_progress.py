"""The progress of trainings: one line for each model, true to its log, on a terminal and in a file."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.experiments.runs.progress import BAR, PARTS, Progress, clock_time, draw, follow, lines, log
from ea_fairseq.experiments.runs.training_log import NAME

UPDATES = 1500


@pytest.fixture
def clock():
    """A clock that a test sets."""
    return [0.0]


@pytest.fixture
def training(tmp_path, clock):
    folder = tmp_path / "ea_transformer_lite"
    folder.mkdir()
    return Progress(folder, UPDATES, lambda: clock[0])


def write(training, **entry):
    with (training.folder / NAME).open("a") as file:
        file.write(f"2026-01-01 | INFO | train | {json.dumps({name: str(value) for name, value in entry.items()})}\n")


def test_a_line_tells_updates_loss_bleu_and_the_time_that_is_left(training, clock):
    training.look()
    assert lines([training], 99) == [f"ea_transformer_lite  {'░' * BAR}  starting"]
    write(training, num_updates=100, loss=5.25)
    training.look()
    clock[0] = 70.0
    write(training, num_updates=450, loss=2.5)
    write(training, valid_num_updates=450, valid_loss=2.4, valid_bleu=61.28)
    training.look()
    # 350 updates in 70 s: 1,050 more take 210.
    assert lines([training], 99) == [
        f"ea_transformer_lite  {'█' * 6}{'░' * 14}  450/1,500 updates  loss 2.50  BLEU 61.3  3:30 left"
    ]
    write(training, num_updates=1500, loss=1.75)
    training.look()
    assert lines([training], 99)[0].endswith("1,500/1,500 updates  loss 1.75  BLEU 61.3  done")


def test_a_resumed_training_is_timed_from_where_it_goes_on(training, clock):
    write(training, num_updates=600, loss=3)
    training.look()
    clock[0] = 30.0
    write(training, num_updates=500, loss=3)  # from the last checkpoint on
    training.look()
    assert training.left() is None
    clock[0] = 40.0
    write(training, num_updates=600, loss=3)
    training.look()
    assert training.left() == pytest.approx(90)


@given(st.lists(st.integers(1, 12), max_size=30))
def test_a_log_is_read_alike_however_it_grows(tmp_path_factory, cuts):
    text = "".join(f'x {{"num_updates": "{step}", "loss": "{step / 7}"}}\nnoise {{\n' for step in range(1, 6))
    folder = tmp_path_factory.mktemp("run")
    training, written = Progress(folder, 5), 0
    with (folder / NAME).open("w") as file:
        for size in [*cuts, len(text)]:
            file.write(text[written : written + size])
            file.flush()
            written += size
            training.look()
    assert (training.done, training.loss) == (5, 5 / 7)


@given(st.lists(st.integers(1, UPDATES), min_size=1, max_size=40).map(sorted))
def test_a_file_gets_a_line_for_each_part_of_a_training_and_no_more(tmp_path_factory, updates):
    training = Progress(tmp_path_factory.mktemp("run"), UPDATES)
    left, file = iter(updates), io.StringIO()

    def ended(_seconds):
        training.done = next(left, None) or training.done
        return training.done == updates[-1]

    training.look = lambda: None
    follow([training], log([training], file), ended)
    said = file.getvalue().splitlines()
    assert len(said) == len({PARTS * done // UPDATES for done in updates} - {0})
    assert all(line.startswith(training.folder.name) and not {"█", "\x1b"} & set(line) for line in said)


@given(st.integers(0, 10**6))
def test_times_are_read_as_clocks_show_them(seconds):
    parts = [int(part) for part in clock_time(seconds).split(":")]
    assert sum(part * 60**place for place, part in enumerate(reversed(parts))) == seconds
    assert all(part < 60 for part in parts[1:])


@given(st.integers(1, 120), st.integers(0, UPDATES))
def test_no_line_is_wider_than_the_terminal_and_its_bar_makes_way(width, done):
    trainings = [Progress(Path(name), UPDATES, done=done, loss=2.5, bleu=99.9) for name in ("short", "a longer name")]
    shown = lines(trainings, width)
    assert all(len(line) <= width for line in shown)
    if width > 60:
        assert all(line.split()[0] in training.folder.name for line, training in zip(shown, trainings, strict=True))
        assert all("BLEU 99.9" in line for line in shown)


def test_on_a_terminal_lines_are_drawn_in_place(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    trainings = [Progress(tmp_path / name, UPDATES) for name in ("transformer_lite", "ea_transformer_lite")]
    for training in trainings:
        training.folder.mkdir()
        (training.folder / NAME).write_text('x {"num_updates": "750", "loss": "2.5"}\n')
    terminal, looks = io.StringIO(), iter([False, True])
    follow(trainings, draw(trainings, terminal), lambda _seconds: next(looks))
    first, second = terminal.getvalue().split("\x1b[2A")
    assert first == second
    rows = second.replace("\x1b[K", "").splitlines()
    assert all(len(row) < 80 for row in rows)
    assert [row.split()[0] for row in rows] == ["transformer_lite", "ea_transformer_lite"]
    assert all("750/1,500 updates" in row for row in rows)
