"""CIFAR-10: the folder that image_prediction reads has the archives that were given, decoded and counted."""

import json

import pytest

from dataset_runs import assert_one_sentence, prepare
from ea_fairseq.data.manifest import counts
from ea_fairseq.data.sets.cifar10 import COUNTS, take_images
from ea_fairseq.images.folder import ImageFolder
from image_archives import draw_images, members, write_images
from needs import CIFAR10, needs_cifar10
from small_archives import pack


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("given"), {"train": 9, "test": 6})


def test_the_archives_are_copied_and_described(tmp_path, given):
    take_images(tmp_path / "data-bin", archives={split: given / f"{split}.tar" for split in ("train", "test")})
    data = tmp_path / "data-bin"
    assert all((data / name).read_bytes() == (given / name).read_bytes() for name in ("train.tar", "test.tar"))
    manifest = json.loads((data / "manifest.json").read_text())
    assert manifest["images"] == {"height": 6, "width": 6, "channels": 3, "classes": 3}
    assert {split: found["pairs"] for split, found in manifest["splits"].items()} == {"train": 9, "test": 6}
    mean = ImageFolder(data).read("test").images.mean(axis=(0, 1, 2)) / 255
    assert manifest["splits"]["test"]["mean"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["out"], "give the folder of the archives with --images"),
        (["--images", ".", "out"], "has neither train.tar nor train.tar.gz"),
        (["--images", "given", "out"], "train 9 instead of 50000, test 6 instead of 10000, height 6 instead of 32"),
        (["--images", "wrong", "out"], "train/cat/x.gif in"),
        (["--images", "other", "out"], "has other sizes or classes than"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path, given, arguments, sentence):
    for name in ("wrong", "other"):
        write_images(tmp_path / name, {"train": 3, "test": 3})
    pack(tmp_path / "wrong/train.tar", {"train/cat/x.gif": b""})
    pack(tmp_path / "other/test.tar", members("test", draw_images(1, 3), ("cat", "cow")))
    places = {"given": given, **{name: tmp_path / name for name in ("wrong", "other", "out", ".")}}
    assert_one_sentence(prepare("cifar10", *(places.get(text, text) for text in arguments)), sentence)


@needs_cifar10
@pytest.mark.slow
def test_the_published_images_have_the_published_counts(tmp_path):
    take_images(tmp_path / "out", archives={split: CIFAR10 / f"{split}.tar.gz" for split in ("train", "test")})
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert counts(manifest).items() >= COUNTS.items()
    splits = manifest["splits"]
    assert splits["train"]["mean"] == pytest.approx((0.4913, 0.4821, 0.4465), abs=1e-4)
    assert splits["train"]["deviation"] == pytest.approx((0.2452, 0.2428, 0.2606), abs=1e-4)
