"""Digits from preparation to predictions: recipes, scores, the hub, and the page of attention."""

import json
import re
from dataclasses import replace
from shutil import copy

import numpy as np
import pytest
import torch

from commands import PLUGIN, ROOT, run_well
from ea_fairseq import EAGraph, EAImage, UserError
from ea_fairseq.experiments.maps.map_quality import maps_of
from ea_fairseq.experiments.maps.map_reader import MapReader
from ea_fairseq.experiments.sample import drawn
from ea_fairseq.experiments.scoring.task_scores import task_score
from ea_fairseq.images.folder import ImageFolder
from hostile_watch import watching
from page_data import data_of

SMALL = ["--encoder-embed-dim", "16", "--encoder-layers", "2", "--max-epoch", "3", "--max-update", "63"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the digits, and a trained model with evolving attention."""
    home = tmp_path_factory.mktemp("user")
    run_well("ea-fairseq", "prepare", "digits", "digits", cwd=home)
    words = ["--data", home / "digits/data-bin", "--out", home / "run", "digits/ea_vit", "--cpu", *SMALL]
    run_well("ea-fairseq", "train", *words, cwd=ROOT)
    return home


@pytest.fixture(scope="module")
def model(home):
    return EAImage.from_pretrained(home / "run", "checkpoint_last.pt")


def test_an_evaluation_has_top_1_and_top_5(home):
    run_well("ea-fairseq", "evaluate", "--cpu", home / "digits/data-bin", home / "run", cwd=ROOT)
    scores = json.loads((home / "run/evaluation/results.json").read_text())["scores"]
    assert 15 < scores["top-1"]["score"] < scores["top-5"]["score"] <= 100
    rows = [line.split("\t") for line in (home / "run/evaluation/predictions.tsv").read_text().splitlines()[1:]]
    best = [predictions.split("/") for _, predictions in rows]
    assert len(rows) == 360 and all(len({*one}) == 5 for one in best)
    right = [label == one[0] for (label, _), one in zip(rows, best, strict=True)]
    assert scores["top-1"]["score"] == round(100 * sum(right) / 360, 2)
    right = [label in one for (label, _), one in zip(rows, best, strict=True)]
    assert scores["top-5"]["score"] == round(100 * sum(right) / 360, 2)
    # A validation counts the same.
    words = ["--user-dir", PLUGIN, "--cpu", "--task", "image_prediction", "--path", home / "run/checkpoint_best.pt"]
    words += ["--valid-subset", "test", "--batch-size", "50", "--log-format", "json"]
    log = run_well("fairseq-validate", home / "digits/data-bin", *words, cwd=home)
    found = json.loads(re.search(r'{.*"test_top5_accuracy".*}', log)[0])
    assert float(found["test_top5_accuracy"]) == round(100 * sum(right) / 360, 1)


def test_top_5_takes_no_part_of_a_name_for_the_name():
    found = [task_score(f"top-{number}", ["a", "b", "ab"], ["ab/b", "ab/b", "ab/b"]).score for number in (1, 5)]
    assert found == [pytest.approx(33.33), pytest.approx(66.67)]


def test_a_trained_model_predicts_files_and_arrays_without_its_data(home, model, tmp_path):
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images[:200, :, :, None] * (255 / 16)).astype(np.uint8)
    Image.fromarray(pixels[3, :, :, 0]).save(tmp_path / "three.png")
    model.predict(pixels[0])  # loads native code
    with watching(home) as seen:
        found = model.predict([*pixels])
    assert not seen
    assert type(model.model).from_pretrained(home / "run", "checkpoint_last.pt").description == model.description
    right = [one.label == str(label) for one, label in zip(found, digits.target, strict=False)]
    assert np.mean(right) > 0.15
    assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in found)
    assert model.predict(tmp_path / "three.png").probabilities == pytest.approx(found[3].probabilities)
    assert model.predict([*pixels], batch_size=7)[-1].probabilities == pytest.approx(found[-1].probabilities, rel=1e-5)


def test_without_a_best_checkpoint_the_last_is_loaded(home, model, tmp_path):
    copy(home / "run/checkpoint_last.pt", tmp_path)
    image = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    assert EAImage.from_pretrained(tmp_path).predict(image) == model.predict(image)


def test_other_images_are_refused(home, model, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    for image, sentence in (
        (np.zeros((9, 8, 1), dtype=np.uint8), "the array is uint8 of the shape (9, 8, 1), and the model reads uint8"),
        (np.zeros((8, 8, 1)), "the array is float64 of the shape (8, 8, 1)"),
        (tmp_path / "none.png", "none.png cannot be read: No such file"),
        (tmp_path / "text.png", "text.png: it is no whole JPEG or PNG image"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            model.predict(image)
    assert model.predict([]) == []
    with pytest.raises(UserError, match=r"^there are no images: give at least one$"):
        model.representations([])
    with pytest.raises(UserError, match="predicts no graphs"):
        EAGraph.from_pretrained(home / "run", "checkpoint_last.pt")


def test_the_page_has_the_maps_of_each_layer(model, tmp_path):
    image = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    maps = model.attention(image)
    assert [*maps] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    for found in maps.values():
        assert found.queries == found.keys and found.keys[:3] == ["class", "1,1", "1,2"] and found.keys[-1] == "4,4"
        torch.testing.assert_close(found.logits.softmax(-1), found.probabilities)
    page = maps.to_html(tmp_path / "page.html", other=maps).read_text(encoding="utf-8")
    data = data_of(page)
    assert [one["name"] for one in data["models"]] == ["ea_vit_tiny", "other"]
    layers = data["models"][0]["layers"]
    assert [(one["rows"], one["columns"], one["leading"], one["heads"]) for one in layers] == [(4, 4, 1, 4)] * 2
    with pytest.raises(UserError, match="these models read different images"):
        maps.to_html(tmp_path / "page.html", other=model.attention(image + 1))


def test_the_quality_of_maps_is_that_of_readers_of_one_query(home, model, tmp_path):
    run_well(
        *("ea-fairseq", "map-quality", "--cpu", "--epochs", "2", "--seeds", "2", "--out", "quality"),
        *(home / "run/checkpoint_last.pt", home / "digits/data-bin"),
        cwd=tmp_path,
    )
    found = json.loads((tmp_path / "quality/map-quality.json").read_text())
    assert [*found["accuracy"]] == [f"encoder.layers.{layer}.self_attn" for layer in (0, 1)]
    assert found["most frequent class"] == pytest.approx(100 * 37 / 360)
    for scores in found["accuracy"].values():
        assert len(scores) == 2 and min(scores) > 2 * found["most frequent class"]


def test_a_limit_draws_images_of_all_classes_from_sets_that_are_sorted_by_class(home, model):
    images = ImageFolder(home / "digits/data-bin").read("test")
    order = images.targets.argsort()
    ordered = replace(images, images=images.images[order], targets=images.targets[order])
    _, targets = maps_of(model, ordered, limit=100)
    assert len(targets) == 100 and len(targets.unique()) == len(images.labels)


def test_maps_of_images_of_other_classes_are_refused(home, model):
    images = ImageFolder(home / "digits/data-bin").read("test")
    others = replace(images, labels=(*images.labels[:-1], "nought"))
    with pytest.raises(UserError, match=r"test\.tar.* has the class 'nought', which the model does not know: give "):
        maps_of(model, others, limit=3)


def test_readers_read_what_the_hub_shows(home, model):
    images = ImageFolder(home / "digits/data-bin").read("test")
    maps, targets = maps_of(model, images, limit=3)
    chosen = drawn(len(images.targets), 3, seed=1)
    assert [images.labels[number] for number in targets] == [images.labels[number] for number in images.targets[chosen]]
    for number, image in enumerate(images.images[chosen]):
        for name, shown in model.attention(image).items():
            expected = shown.probabilities[:, 0, 1:].unflatten(1, (4, 4))  # of the class token, for all patches
            torch.testing.assert_close(maps[name][number], expected)
    assert sum(parameter.numel() for parameter in MapReader(8, 10).parameters()) == 89_266
