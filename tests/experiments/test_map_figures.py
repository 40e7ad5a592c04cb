"""scripts/attention_maps.py draws and measures what attentions do, and refuses what it cannot in one sentence."""

import csv
import json
import re
import subprocess
import sys
from importlib import util
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from commands import ROOT
from drawn_figures import band, lines
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.attention_maps import usual_folder
from ea_fairseq.experiments.maps.map_figures import LEAST_CELL, Axes, Row, draw_maps, draw_series_maps
from ea_fairseq.experiments.maps.map_statistics import Curve
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, evolution
from ea_fairseq.experiments.maps.statistics_files import draw_statistics
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from figure_texts import NAMES, texts_of, with_texts
from mapped_models import PAIRS, write_models

SENTENCE = ["--source", "Abc d", "--target", "fd a"]
STAGES = ("own", "input", "logits", "probabilities")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("a home"))


@pytest.fixture
def show(home, attention_maps):
    """Runs the script on the evolving model; returns what it prints."""
    return lambda *flags: attention_maps(home / "ea model", "--cpu", *flags)


def assert_pictures(folder: Path, stems: list[str]):
    assert {path.name for path in folder.iterdir() if path.suffix in (".png", ".svg")} == {
        f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")
    }
    for stem in stems:
        assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(folder / f"{stem}.svg").getroot().tag.endswith("svg")


def test_a_sentence_is_drawn_by_attention_and_head_the_same_bytes_every_time(home, show, tmp_path):
    printed = show(*SENTENCE, "--attention", "decoder", "--heads", "2,mean", "--out", tmp_path)
    assert printed.startswith("source: a@@ b@@ c d\ntarget: f@@ d a\nwritten to")
    assert_pictures(tmp_path, ["decoder-head-2", "decoder-mean"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    show(*SENTENCE, "--attention", "decoder", "--heads", "2,mean", "--out", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_translates_the_source_itself_and_stands_beside_another(home, show):
    printed = show(
        "--source", "abc", "--compare", home / "plain model/checkpoint_best.pt", "--heads", "1", "--stages", "logits"
    )
    model = load_translation(find_model(home / "ea model"), cpu=True)
    best = model.generate(model.encode("abc"), beam=5)[0]["tokens"]
    assert printed.splitlines()[1] == f"target: {model.tgt_dict.string(best)}"
    assert_pictures(home / "ea model/attention_maps", [f"{name}-head-1" for name in ("encoder", "decoder", "cross")])


@pytest.mark.parametrize(
    ("checkpoint", "attention", "labels"),
    [
        ("ea model", "encoder", ["own logits", "after mixing", "after convolution", "probabilities"]),
        ("ea model", "decoder", ["own logits, no skip connection", "after convolution", "probabilities"]),
        ("plain model", "cross", ["own logits, no skip connection, no convolution", "probabilities"]),
    ],
)
def test_what_changes_nothing_is_named_and_not_drawn(home, checkpoint, attention, labels):
    model = load_translation(find_model(home / checkpoint), cpu=True)
    maps = SentenceMaps.of("a model", model.attention("abc d", "fd a"), model.subword)
    rows = evolution(maps, attention, "1", STAGES)
    assert [row.label for row in rows] == labels
    axes = maps.axes(attention)
    read, predicted = ["</s>", "f·", "d", "a"], ["f·", "d", "a", "</s>"]
    source = ["a·", "b·", "c", "d", "</s>"]
    words = {"encoder": (source, source), "decoder": (read, read), "cross": (predicted, source)}
    assert (axes.queries, axes.keys) == words[attention]
    for row in rows:
        assert len(row.maps) == 2
        for values in row.maps:
            later = np.triu(np.ones(values.shape, bool), 1) if attention == "decoder" else np.zeros(values.shape, bool)
            assert np.array_equal(np.isnan(values), later)


def test_words_and_names_of_models_are_drawn_as_they_are(tmp_path):
    rows = [Row(name, [np.eye(len(NAMES))], diverging=True) for name in NAMES]
    keys, title = [f"key {name}" for name in NAMES], f"title {NAMES[0]}"
    curves = {"entropy": {"encoder": Curve(torch.ones(2, 2), torch.ones(2))}}
    with with_texts():
        draw_maps(title, rows[:1], Axes(NAMES, keys, "", ""), tmp_path / "maps")
        draw_series_maps(title, rows, np.ones((len(NAMES), 1)), tmp_path / "series")
        draw_statistics(dict.fromkeys(NAMES, curves), tmp_path)
    for figure in ("maps", "series", "entropy"):
        assert {*NAMES} <= texts_of(tmp_path / f"{figure}.svg")
    assert {*keys, title} <= texts_of(tmp_path / "maps.svg")
    assert title in texts_of(tmp_path / "series.svg")


def test_maps_have_queries_down_and_keys_across(drawn, tmp_path):
    maps, queries, keys = [np.arange(6.0).reshape(2, 3) - layer for layer in range(2)], ["a", "b"], ["x", "y", "z"]
    draw_maps("", [Row("", maps, diverging=True)], Axes(queries, keys, "", ""), tmp_path / "maps")
    squares = [np.arange(9.0).reshape(3, 3) - layer for layer in range(2)]
    draw_series_maps("", [Row("", squares, diverging=True)], np.ones((3, 1)), tmp_path / "series")
    for figure, expected in zip(drawn, (maps, squares), strict=True):
        images = [image for panel in figure.axes for image in panel.images]
        assert [image.origin for image in images] == ["upper"] * 2
        assert np.array_equal([image.get_array() for image in images], expected)
    first = drawn[0].axes[0]
    words = [[label.get_text() for label in axis.get_ticklabels()] for axis in (first.yaxis, first.xaxis)]
    assert words == [queries, keys]


def test_statistics_are_drawn_of_the_heads_and_of_their_mean_map(drawn, tmp_path):
    heads, mean = torch.tensor([[1.0, 4.0, 2.0], [5.0, 0.0, 3.0]]).double(), torch.tensor([7.0, 9.0]).double()
    draw_statistics({"a model": {"entropy": {"encoder": Curve(heads, mean)}}}, tmp_path)
    of_heads, of_mean = drawn[0].axes
    assert lines(of_heads) == [[(1, pytest.approx(7 / 3)), (2, pytest.approx(8 / 3))]]
    assert [band(found) for found in of_heads.collections] == [{1: (1, 4), 2: (0, 5)}]
    assert lines(of_mean) == [[(1, 7), (2, 9)]] and not of_mean.collections


@pytest.mark.parametrize(("down", "across", "letters", "rows", "layers"), [(3, 4, 2, 1, 1), (40, 40, 12, 2, 6)])
def test_panels_have_room_of_their_own_and_words_are_legible(drawn, tmp_path, down, across, letters, rows, layers):
    maps = [Row("a row", [np.zeros((down, across))] * layers, diverging=True)] * rows
    draw_maps("a title", maps, Axes(["q" * letters] * down, ["k" * letters] * across, "", ""), tmp_path / "maps")
    figure = drawn[0]
    boxes = [panel.get_window_extent() for panel in figure.axes]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for panel in figure.axes[: rows * layers]:
        box = panel.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        assert min(box.width / across, box.height / down) > 0.8 * LEAST_CELL
    assert figure.get_figwidth() >= 7


def test_a_folder_that_git_has_is_left_as_it_is(home):
    released = ROOT / "checkpoints/embedded-ea_transformer_lite"
    for checkpoint in (released, released / "model.safetensors"):
        assert usual_folder(checkpoint) == ROOT / "runs/embedded-ea_transformer_lite/attention_maps"
    assert usual_folder(home / "ea model") == home / "ea model/attention_maps"


def test_pages_in_one_folder_have_a_table_each(show, tmp_path):
    for name in ("one", "two"):
        show("--source", name, "--html", tmp_path / f"{name}.html")
    assert {path.name for path in tmp_path.iterdir()} == {"one.html", "one.csv", "two.html", "two.csv"}


def test_a_test_set_is_measured_printed_and_drawn(home, show, tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n0-0\n0?0\n0-0 3-1\n")
    flags = ["--alignment", tmp_path / "gold", "--out", tmp_path / "new" / "folder"]
    printed = show("--statistics", "--compare", home / "plain model", *flags)
    assert_pictures(tmp_path / "new/folder", ["entropy", "similarity", "alignment-error"])
    found = json.loads((tmp_path / "new/folder/statistics.json").read_text())
    assert found["pairs"] == len(PAIRS) and found["pairs left out of the alignment error"] == 1
    with (tmp_path / "new/folder/statistics.csv").open() as file:
        values = [row | {"layer": int(row["layer"]), "value": float(row["value"])} for row in csv.DictReader(file)]
    assert values == [row | {"head": str(row["head"])} for row in found["values"]]
    # 2 models, 2 heads and their mean: entropy of 3 x 2 layers, similarity of 3 x 1, alignment error of 2
    assert len(values) == 2 * 3 * (6 + 3 + 2)
    entropies = [row["value"] for row in values if row["measure"] == "entropy" and row["head"] == "mean"]
    assert f"{entropies[0]:.3f}" in printed
    assert "4 pairs of test; 1 with unknown pieces do not count in the alignment error." in printed
    errors = [row["value"] for row in values if row["measure"] == "alignment error" and row["head"] != "mean"]
    first, second = errors[:2], errors[2:4]  # heads of the first model's layers
    assert min(first) < max(first) or min(second) < max(second)
    assert re.search(rf"ea_transformer, best head +{min(first):.3f} +{min(second):.3f}\n", printed)
    assert "\n  transformer, mean over heads" in printed


def test_as_many_pairs_as_asked_for(home, show, tmp_path):
    assert "1 pairs of test." in show("--statistics", "--max-pairs", "1", "--out", tmp_path)


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ([*SENTENCE, "--compare", "other words model"], ["other words model", "another vocabulary"]),
        ([*SENTENCE, "--compare", "other languages model"], ["other languages model translates en-de, not de-en"]),
        ([*SENTENCE, "--compare", "no model"], ["there is no checkpoint", "no model"]),
        (
            [*SENTENCE, "--compare", "plain model", "--heads", "1,3"],
            ["--heads: there is no head 3 in the encoder self-attention: it has 2"],
        ),
        (["--source", " "], ["source sentence 1 is empty"]),
        (["--source", "abc", "--target", ""], ["target sentence 1 is empty"]),
        (["--source", "a" * 30], ["source sentence 1 has 31 tokens and the model reads at most 20"]),
        ([*SENTENCE, "--data", "nowhere"], ["there is no folder", "nowhere", "--data"]),
        (["--statistics", "--subset", "valid"], ["there is no valid in", "--data"]),
        (["--statistics", "--alignment", "none"], ["there is no file", "none", "--alignment"]),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(home, show, monkeypatch, tmp_path, flags, parts):
    monkeypatch.chdir(home)
    with pytest.raises(UserError) as refusal:
        show(*flags, "--out", tmp_path)
    assert all(part in str(refusal.value) for part in parts), refusal.value
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ([], "one of the arguments --source --series --image --statistics --centres is required"),
        (["--statistics", *SENTENCE[:2]], "not allowed with"),
        ([*SENTENCE, "--attention", "encoder,self"], "--attention: there is no 'self': choose from encoder"),
        ([*SENTENCE, "--stages", "owned"], "--stages: there is no 'owned'"),
        ([*SENTENCE, "--heads", "0"], "--heads: needs numbers from 1, or 'mean', not '0'"),
        (["--statistics", "--max-pairs", "0"], "--max-pairs: needs a whole number of at least 1, not '0'"),
        (["--statistics", "--target", "a"], "--target goes with --source"),
        (["--statistics", "--tag", "news"], "--tag goes with --source"),
        ([*SENTENCE, "--alignment", "x"], "--alignment goes with --statistics"),
    ],
)
def test_bad_options_are_named(home, show, flags, part):
    with pytest.raises(SystemExit) as refusal:
        show(*flags)
    assert part in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_missing_matplotlib_is_named(home, show, monkeypatch):
    found = util.find_spec
    monkeypatch.setattr(
        "ea_fairseq.experiments.environment.find_spec", lambda name: None if name == "matplotlib" else found(name)
    )
    with pytest.raises(UserError, match=r"pip install 'ea-fairseq\[plots\]'"):
        show(*SENTENCE)


@pytest.mark.slow
def test_the_script_runs_from_any_folder():
    command = [sys.executable, ROOT / "scripts/attention_maps.py", "none.pt", *SENTENCE, "--heads", "x"]
    result = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == "maps: --heads: needs numbers from 1, or 'mean', not 'x': see --help.\n"
