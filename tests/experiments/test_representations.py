"""`ea-fairseq representations`: the laws of AvgWCD, what heads read, and what the command writes and prints."""

import json
import logging
import math
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group

from ea_fairseq import EAGraph, EARobertaModel, EATimeSeries, UserError
from ea_fairseq.experiments.representations import command
from ea_fairseq.experiments.representations.clusters import Compactness, tsne
from ea_fairseq.experiments.representations.figure import draw
from ea_fairseq.series.ts_file import read_ts
from graphs import draw_graph, write_graph
from time_series import HEAD, write_folder
from tiny import make_loud
from untrained_encoders import EXAMPLES, save_encoder, save_model, save_series, write_sentences

SMALL = ["--perplexity", "5", "--cpu"]
CLASSIFIER = ["--embedding-size", "16"]


def save_graph(data, checkpoint, arch, seed):
    flags = ["--task", "node_prediction", "--criterion", "sentence_prediction", "--optimizer", "adam", "--cpu"]
    save_model(checkpoint, [str(data), *flags, "--arch", arch, "--seed", str(seed)], make_loud)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Data of each kind, and two models of each."""
    home = tmp_path_factory.mktemp("home")
    write_graph(home / "graph", draw_graph(1, nodes=90))
    write_folder(home / "series", {"train": 8, "test": 31})
    write_sentences(home / "sentences")
    for seed, (of_graph, of_series, of_sentences) in enumerate(
        [("gat", "dc_transformer", "roberta"), ("ea_gat", "ea_dc_transformer", "ea_transformer_classifier")]
    ):
        save_graph(home / "graph", home / of_graph / "checkpoint_best.pt", of_graph, seed)
        save_series(home / "series", home / of_series / "checkpoint_best.pt", arch=of_series, seed=seed)
        flags = CLASSIFIER if "classifier" in of_sentences else []
        checkpoint = home / of_sentences / "checkpoint_best.pt"
        save_encoder(home / "sentences", checkpoint, "sentence_prediction", *flags, arch=of_sentences, seed=seed)
    return home


@pytest.fixture
def show(home, monkeypatch, capsys):
    """Runs the command in its folder; returns what it prints."""
    monkeypatch.chdir(home)

    def run(*words) -> str:
        monkeypatch.setattr(sys, "argv", ["representations", *map(str, words)])
        monkeypatch.setattr(logging, "disable", lambda level: None)
        with warnings.catch_warnings():
            command.main()
        return capsys.readouterr().out

    return run


def clouds(seed: int, classes: int = 3, channels: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Points and their classes, each of which has one at least."""
    random = np.random.default_rng(seed)
    numbers = np.concatenate([np.arange(classes), random.integers(0, classes, 20)])
    return random.normal(size=(len(numbers), channels)) + 3 * numbers[:, None], numbers


def by_loops(points: np.ndarray, classes: np.ndarray) -> list[float]:
    """AvgWCD as equation 13 has it, and the same by the mean distance to the centre of all."""

    def mean(rows):
        return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]

    rows = points.tolist()
    centres = {one: mean([row for row, of in zip(rows, classes, strict=True) if of == one]) for one in {*classes}}
    within = math.fsum(math.dist(row, centres[one]) for row, one in zip(rows, classes, strict=True)) / len(rows)
    return [within, within / (math.fsum(math.dist(row, mean(rows)) for row in rows) / len(rows))]


def test_a_hand_computed_example():
    """The centres are (1, 0), (10, 4) and, of all points, (4, 4/3)."""
    points, classes = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 4.0]]), np.array([4, 4, 7])
    found = Compactness.of(points, classes)
    overall = [math.hypot(4, 4 / 3), math.hypot(2, 4 / 3), math.hypot(6, 8 / 3)]
    assert found.average_distance == pytest.approx(2 / 3)
    assert found.normalised == pytest.approx(2 / sum(overall))


@given(st.integers(0, 1000), st.integers(1, 5))
def test_loops_find_the_same(seed, classes):
    found = Compactness.of(*clouds(seed, classes))
    assert [found.average_distance, found.normalised] == pytest.approx(by_loops(*clouds(seed, classes)))
    assert classes > 1 or found.normalised == 1


@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_moving_and_turning_change_nothing_and_the_normalised_one_has_no_unit(seed, scale):
    points, classes = clouds(seed)
    found = Compactness.of(points, classes)
    turned = points @ ortho_group.rvs(points.shape[1], random_state=seed) + np.arange(points.shape[1])
    order = np.random.default_rng(seed).permutation(len(points))
    moved = Compactness.of(turned[order], -classes[order])
    assert moved.average_distance == pytest.approx(found.average_distance)
    scaled = Compactness.of(scale * points, classes)
    assert scaled.average_distance == pytest.approx(scale * found.average_distance)
    assert scaled.normalised == pytest.approx(found.normalised) == moved.normalised


def test_tsne_is_the_same_for_a_seed_and_separates_clouds_that_are_apart():
    points, classes = clouds(1)
    apart = points + 50 * classes[:, None]
    plane = tsne(apart, 5, 1)
    np.testing.assert_array_equal(plane, tsne(apart, 5, 1))
    assert plane.shape == (23, 2)
    assert Compactness.of(plane, classes).normalised < 0.5


@pytest.mark.parametrize("arch", ["gat", "ea_gat"])
def test_the_last_layer_makes_a_graphs_predictions_of_its_representations(home, arch):
    hub, graph = EAGraph.from_pretrained(home / arch), draw_graph(2, nodes=20)
    found = hub.representations(graph)
    assert found.shape == (20, 64)
    inputs = graph.inputs(hub.description.features)
    passed = []
    with torch.no_grad(), hub.model.layers[0].register_forward_hook(lambda *of: passed.append(of[-1])):
        hub.outputs(graph)
    ((read, maps),) = passed
    torch.testing.assert_close(found.float(), F.elu(read.flatten(1) + hub.model.biases[0]))
    head = hub.model.classification_heads[HEAD]
    with torch.no_grad():
        outputs = head(found.float(), inputs["edges"], maps)[0].mean(dim=1) + hub.model.output_bias
    torch.testing.assert_close(outputs.double(), hub.outputs(graph).detach(), rtol=0, atol=1e-5)


def test_the_output_layer_makes_predictions_of_a_series_of_its_representation(home):
    hub, file = EATimeSeries.from_pretrained(home / "ea_dc_transformer"), read_ts(home / "series/test.ts.gz")
    found = hub.representations(file.series, batch_size=7)
    head = hub.model.classification_heads[HEAD]
    assert found.shape == (31, head.in_features)
    probabilities = F.linear(found, head.weight, head.bias).softmax(-1).tolist()
    for one, expected in zip(hub.predict(file.series), probabilities, strict=True):
        assert [*one.probabilities.values()] == pytest.approx(expected, abs=1e-5)
    width = head.in_features // hub.description.longest
    for row, series in zip(found, file.series, strict=True):
        assert not row[len(series) * width :].any()


@pytest.mark.parametrize("arch", ["roberta", "ea_transformer_classifier"])
def test_the_head_classifies_a_sentence_by_its_representation(home, arch):
    hub = EARobertaModel.from_pretrained(home / arch, "checkpoint_best.pt", home / "sentences")
    texts = ["w1 w2 w3 w4 w5 w6", "w7", ("w2 w3", "w9")]
    found = hub.representations(texts)
    assert found.shape == (3, 16)
    head = hub.model.classification_heads[HEAD]
    with torch.no_grad():
        outputs = head(found if arch == "ea_transformer_classifier" else found[:, None])
    for one, expected in zip(hub.predict(texts), outputs.softmax(-1).tolist(), strict=True):
        assert [*one.probabilities.values()] == pytest.approx(expected, abs=1e-5)


def classes_and_points(home, kind, arch):
    """Numbers of classes and representations of the test set, by the hub."""
    if kind == "graph":
        graph = draw_graph(1, nodes=90)
        points = EAGraph.from_pretrained(home / arch).representations(graph)
        return np.array(graph.labels)[graph.splits["test"]], points[graph.splits["test"]].float()
    if kind == "series":
        file = read_ts(home / "series/test.ts.gz")
        return np.array(file.targets), EATimeSeries.from_pretrained(home / arch).representations(file.series)
    hub = EARobertaModel.from_pretrained(home / arch, "checkpoint_best.pt", home / "sentences")
    points = hub.representations_of_tokens(hub.subset("test"))
    dataset = hub.task.dataset("test")
    return np.array([int(dataset[number]["target"]) for number in range(EXAMPLES)]), points


@pytest.mark.parametrize(
    ("kind", "plain", "evolving", "names"),
    [
        ("graph", "gat", "ea_gat", ["0", "1", "2"]),
        ("series", "dc_transformer", "ea_dc_transformer", ["low", "high"]),
        ("sentences", "roberta", "ea_transformer_classifier", ["1", "0"]),
    ],
)
def test_two_models_are_measured_and_drawn(home, show, drawn, tmp_path, kind, plain, evolving, names):
    printed = show(plain, f"{evolving}/checkpoint_best.pt", kind, *SMALL, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out/representations.json").read_text())
    assert found["settings"] == {"subset": "test", "points": 2000, "perplexity": 5, "seed": 1}
    assert list(found["models"]) == [plain, evolving]
    (figure,) = drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    for (arch, one), panel in zip(found["models"].items(), figure.axes, strict=True):
        classes, points = classes_and_points(home, kind, arch)
        measures = [*one["representations"].values()]
        assert measures == pytest.approx(by_loops(points.numpy(), classes.tolist()), rel=1e-4)
        assert [one["points"], one["channels"]] == [found["drawn from"], points.shape[1]] == [*points.shape]
        shown = [np.asarray(cloud.get_offsets()) for cloud in panel.collections]
        assert [len(cloud) for cloud in shown] == np.bincount(classes).tolist()
        in_order = np.repeat(np.arange(len(shown)), [*map(len, shown)])
        after = [*one["after_tsne"].values()]
        assert after == pytest.approx(by_loops(np.concatenate(shown), in_order.tolist()), rel=1e-4)
        cells = [arch, *(str(size) for size in points.shape), *(f"{value:.3f}" for value in (*measures, *after))]
        assert cells in map(str.split, printed.splitlines())
        assert panel.get_title() == f"{arch}\nAvgWCD {measures[0]:.3f}, normalised {measures[1]:.3f}"


def test_examples_are_drawn_by_the_seed_and_all_else_follows_from_it(show, tmp_path):
    outputs = {}
    for name, seed in {"first": 1, "again": 1, "other": 2}.items():
        show("gat", "graph", *SMALL, "--points", "12", "--seed", seed, "--out", tmp_path / name)
        texts = [(tmp_path / name / f"representations.{kind}").read_bytes() for kind in ("json", "svg", "png")]
        outputs[name] = texts
        (model,) = json.loads(texts[0])["models"].values()
        assert (model["points"], json.loads(texts[0])["drawn from"]) == (12, 29)
    assert outputs["first"] == outputs["again"]
    assert all(one != other for one, other in zip(outputs["first"], outputs["other"], strict=True))


def test_twenty_classes_look_different_and_more_have_no_legend(drawn, tmp_path):
    for classes in (20, 60):
        names = [f"class {number}" for number in range(classes)]
        points, numbers = clouds(1, classes, channels=2)
        draw([(f"model {n}", "note", points) for n in range(4)], numbers, names, tmp_path / str(classes))
    twenty, sixty = drawn
    clouds_of = twenty.axes[0].collections
    looks = {(one.get_facecolor().tobytes(), one.get_paths()[0].vertices.tobytes()) for one in clouds_of}
    assert len(looks) == 20
    assert (len(twenty.legends), len(sixty.legends)) == (1, 0)
    assert [panel.axison for panel in twenty.axes] == [True] * 4 + [False] * 2


@pytest.fixture(scope="module")
def odd(home):
    """Models and data without classes."""
    write_folder(home / "numbers", {"train": 8, "test": 8}, labels=None)
    save_series(home / "numbers", home / "of numbers/checkpoint_best.pt", "--regression-target", arch="dc_transformer")
    write_sentences(home / "scores", regression=True)
    flags = ["--num-classes", "1", "--regression-target"]
    save_encoder(home / "scores", home / "of scores/checkpoint_best.pt", "sentence_prediction", *flags, arch="roberta")
    (write_sentences(home / "bare") / "label/test.bin").unlink()
    save_graph(home / "graph", home / "broken/checkpoint_best.pt", "gat", 1)
    state = torch.load(home / "broken/checkpoint_best.pt")
    state["model"]["biases.0"].fill_(math.nan)
    torch.save(state, home / "broken/checkpoint_best.pt")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["of numbers", "numbers"], r"numbers/test.ts.gz has no classes, by which"),
        (["of scores", "scores"], r"scores has no classes, by which"),
        (["roberta", "bare"], r"bare has no label/test.bin: give a folder that has it, or another --subset"),
        (["gat", "series"], r"gat/checkpoint_best.pt is a model for --task node_prediction, and series has data for"),
        (["gat", "graph", "--subset", "dev"], r"no node of .*graph is in dev: name another --subset"),
        (["dc_transformer", "series", "--subset", "valid"], r"there is no valid.ts or valid.ts.gz in"),
        (["gat", "graph", "--perplexity", "29"], r"gat: t-SNE needs more examples than --perplexity 29, .* 29: lower"),
        (["gat", "graph", "--points", "5"], r"gat: t-SNE needs more examples than --perplexity 5, .* 5: lower"),
        (["broken", "graph"], r"gat: the representations have values that are infinite or not a number"),
        (["nothing", "graph"], r"there is no checkpoint nothing"),
        (["gat", "nothing"], r"there is no folder nothing"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(show, odd, tmp_path, words, sentence):
    with pytest.raises(UserError, match=sentence):
        show(*SMALL, *words, "--out", tmp_path)
    assert not [*tmp_path.glob("representations.*")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--perplexity", "0"], "--perplexity: needs a number of at least 1"),
        (["--points", "1"], "--points: needs a whole number of at least 2"),
        (["--seed", "4294967296"], "--seed needs a whole number of at most 4294967295"),
    ],
)
def test_flags_out_of_range_are_named(show, tmp_path, words, sentence):
    with pytest.raises(SystemExit, match=sentence):
        show("gat", "graph", "--out", tmp_path, *words)


def test_a_model_of_masked_words_is_refused(show, home, tmp_path):
    save_encoder(write_sentences(home / "words") / "input0", home / "lm/checkpoint_best.pt", "masked_lm")
    with pytest.raises(UserError, match="is a model for --task masked_lm: give one for node_prediction, "):
        show("lm", "words/input0", "--out", tmp_path)


def test_collapsed_representations_are_refused():
    with pytest.raises(UserError, match="the representations are all equal"):
        tsne(np.ones((9, 4)), 5, 1)
