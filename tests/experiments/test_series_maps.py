"""scripts/attention_maps.py draws what attentions do with a time series, and Python gives the maps."""

import csv

import numpy as np
import pytest
import torch

from ea_fairseq import EATimeSeries
from ea_fairseq.attention.maps import by_layer
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.pictures import Browser
from ea_fairseq.series.ts_file import read_ts
from needs import needs_browser
from page_data import data_of
from time_series import write_folder
from untrained_encoders import save_series

SIZES = {"train": 20, "test": 4}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("a home")
    data = write_folder(home / "toys", SIZES)
    save_series(data, home / "evolving" / "checkpoint_best.pt")
    save_series(data, home / "plain" / "checkpoint_best.pt", arch="dc_transformer")
    save_series(data, home / "convolving" / "checkpoint_best.pt", arch="dilated_cnn")
    return home


@pytest.fixture
def show(home, attention_maps):
    """Runs the script on a model; returns what it prints."""
    return lambda model, *flags: attention_maps(home / model, *flags)


def test_maps_are_those_of_the_steps_of_a_series(home):
    model = EATimeSeries.from_pretrained(home / "evolving")
    series = np.random.default_rng(1).standard_normal((6, 3))
    maps = by_layer(model.attention(series))["encoder"]
    assert len(maps) == 2
    for layer in maps:
        assert layer.probabilities.shape == (2, 6, 6) and layer.queries == ["1", "2", "3", "4", "5", "6"]
        torch.testing.assert_close(layer.logits.softmax(-1), layer.probabilities)
        torch.testing.assert_close(layer.probabilities.sum(-1), torch.ones(2, 6))
    assert not torch.equal(maps[1].own, maps[1].logits)


def test_figures_are_drawn_of_heads_and_models(show, tmp_path):
    printed = show("evolving", "--series", "2", "--out", tmp_path / "all")
    assert printed.startswith("series 2 of test.ts.gz:\n  evolving: True class: high. Predicted class: ")
    heads = ("head-1", "head-2", "mean")
    names = {f"series-2-{head}.{kind}" for head in heads for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "all").iterdir()} == names
    flags = ["--series", "20", "--subset", "train", "--heads", "mean", "--stages", "probabilities"]
    show("evolving", *flags, "--out", tmp_path / "again")
    show("evolving", *flags, "--out", tmp_path / "twice")
    assert (tmp_path / "again/series-20-mean.svg").read_bytes() == (tmp_path / "twice/series-20-mean.svg").read_bytes()


def test_two_models_stand_beside_each_other(home, show, tmp_path):
    printed = show("evolving", "--series", "1", "--compare", home / "plain", "--heads", "1", "--out", tmp_path)
    assert "  evolving: " in printed and "  plain: " in printed
    assert "plain: probabilities" in (tmp_path / "series-1-head-1.svg").read_text()


def test_a_page_of_a_series_has_the_maps_and_the_series(home, show, tmp_path):
    show("evolving", "--series", "1", "--compare", home / "plain", "--html", tmp_path / "page.html")
    data = data_of((tmp_path / "page.html").read_text())
    assert [model["name"] for model in data["models"]] == ["evolving", "plain"]
    series = read_ts(home / "toys" / "test.ts.gz").series[0]
    for model in data["models"]:
        found = EATimeSeries.from_pretrained(home / model["name"]).predict(series)
        probability = f"{found.probabilities[found.label]:.2f}"
        assert model["note"] == f"True class: low. Predicted class: {found.label} (probability {probability})."
    keys = data["models"][0]["attentions"]["encoder"]["keys"]
    assert len(data["series"]) == 3 and {len(channel) for channel in data["series"]} == {len(keys)}
    with (tmp_path / "page.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "evolving" and row["stage"] == "probabilities"]
    of_first = [float(row["value"]) for row in rows if (row["layer"], row["head"], row["query"]) == ("2", "1", "1")]
    assert len(of_first) == len(keys) and sum(of_first) == pytest.approx(1, abs=1e-3)
    maps = EATimeSeries.from_pretrained(home / "evolving").attention(np.ones((6, 3)))
    assert maps.to_html(tmp_path / "from Python.html").read_text().count('"series": [[') == 1


@needs_browser
@pytest.mark.slow
def test_the_page_names_the_channels_and_what_is_predicted(show, tmp_path):
    show("evolving", "--series", "1", "--html", tmp_path / "page.html")
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        names = browser.run("return [...document.querySelectorAll('#channels span')].map((one) => one.textContent)")
        assert names == ["channel 1", "channel 2", "channel 3"]
        assert browser.text(".panel .note").startswith("True class: low. Predicted class: ")
        assert browser.complaints() == []


@pytest.mark.parametrize(
    ("model", "flags", "sentence"),
    [
        ("evolving", ["--series", "5"], "--series: .*test.ts.gz has 4 series, and there is no number 5"),
        ("evolving", ["--series", "1", "--heads", "3"], "--heads: there is no head 3"),
        ("evolving", ["--series", "1", "--subset", "valid"], r"there is no valid\.ts"),
        ("convolving", ["--series", "1"], "this model has no attention"),
        ("evolving", ["--source", "a"], "reads time series: name one with --series"),
    ],
)
def test_what_cannot_be_drawn_is_refused(show, tmp_path, model, flags, sentence):
    with pytest.raises(UserError, match=sentence):
        show(model, *flags, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_array_without_channels_is_refused(home):
    with pytest.raises(UserError, match=r"series 0 must be an array \(T, 3\)"):
        EATimeSeries.from_pretrained(home / "evolving").attention(np.zeros(5))
