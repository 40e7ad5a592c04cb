"""The progress of trainings is true to their logs, on a terminal and in a file."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.experiments.runs.training_log import NAME, PARTS, Progress

UPDATES = 1500


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def training(tmp_path):
    folder = tmp_path / "ea_transformer_lite"
    folder.mkdir()
    return Progress(folder, UPDATES, 0, Terminal())


def write(training, **entry):
    with (training.folder / NAME).open("a") as file:
        file.write(f"2026-01-01 | INFO | train | {json.dumps({name: str(value) for name, value in entry.items()})}\n")


def test_a_bar_tells_updates_loss_and_bleu(training):
    training.look()
    write(training, num_updates=450, loss=2.5)
    write(training, valid_num_updates=450, valid_loss=2.4, valid_bleu=61.28)
    training.look()
    training.close()
    last = training.file.getvalue().rstrip().rpartition("\r")[2]
    assert last.startswith("ea_transformer_lite  ") and "450/1500 updates, loss=2.50, BLEU=61.3, " in last
    assert training.line() == "ea_transformer_lite  450/1,500 updates  loss 2.50  BLEU 61.3"
    write(training, num_updates=1500, loss=1.75)
    training.look()
    assert training.line() == "ea_transformer_lite  1,500/1,500 updates  loss 1.75  BLEU 61.3  done"


@given(st.lists(st.integers(1, 12), max_size=30))
def test_a_log_is_read_alike_however_it_grows(tmp_path_factory, cuts):
    text = "".join(f'x {{"num_updates": "{step}", "loss": "{step / 7}"}}\nnoise {{\n' for step in range(1, 6))
    folder = tmp_path_factory.mktemp("run")
    training, written = Progress(folder, 5, 0, io.StringIO()), 0
    with (folder / NAME).open("w") as file:
        for size in [*cuts, len(text)]:
            file.write(text[written : written + size])
            file.flush()
            written += size
            training.look()
    assert (training.done, training.facts) == (5, {"loss": f"{5 / 7:.2f}"})


@given(st.lists(st.integers(1, UPDATES), min_size=1, max_size=40).map(sorted))
def test_a_file_gets_a_line_for_each_part_of_a_training_and_no_more(tmp_path_factory, updates):
    training = Progress(tmp_path_factory.mktemp("run"), UPDATES, 0, io.StringIO())
    for done in updates:
        write(training, num_updates=done, loss=1)
        training.look()
    said = training.file.getvalue().splitlines()
    assert len(said) == len({PARTS * done // UPDATES for done in updates} - {0})
    assert all(line.startswith(training.folder.name) for line in said)
