"""What becomes of images on their way from archives to models: description, split, augmentation, batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from ea_fairseq.data.prepare import data_set
from ea_fairseq.data.sets.digits import write_digits
from ea_fairseq.errors import UserError
from ea_fairseq.images import description as description_module
from ea_fairseq.images.dataset import AUGMENTATIONS, ImageDataset
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.images.folder import ImageFolder
from ea_fairseq.images.transforms import CUT_OUT, PADDING, Augmentation
from ea_fairseq.plain.descriptions import plain_values
from ea_fairseq.tasks.image_prediction import ImagePredictionConfig, ImagePredictionTask
from image_archives import LABELS, draw_images, members, write_images
from small_archives import pack

SIZES = {"train": 30, "test": 6}


def task_of(folder, **options):
    return ImagePredictionTask(ImagePredictionConfig(**{"data": str(folder), "seed": 1, "valid_ratio": 0.2, **options}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images"), SIZES)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_statistics_are_those_of_all_pixels(count, channels, seed, constant):
    images = draw_images(seed, count, channels=channels)
    if constant:
        images[..., 0] = seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description_module, "CHUNK", 3)
        found = ImageDescription.of(images, LABELS)
    values = images.reshape(-1, channels) / 255
    assert found.mean == pytest.approx(values.mean(axis=0))
    assert found.deviation == pytest.approx([1.0] * constant + values.std(axis=0)[constant:].tolist())
    assert ImageDescription.from_state(plain_values(found)) == found


def test_models_read_mean_0_and_deviation_1_over_the_training_part(folder):
    task = task_of(folder, augment_images="none")
    train, valid = (task.load_dataset(split) for split in ("train", "valid"))
    assert (len(train), len(valid)) == (24, 6)
    batch = train.collater([*range(24)])
    source = batch["net_input"]["source"]
    assert (source.shape, source.dtype, source.is_contiguous()) == ((24, 3, 6, 6), torch.float32, True)
    torch.testing.assert_close(source.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(source.std(dim=(0, 2, 3), correction=0), torch.ones(3))
    raw = task.folder.read("train")
    for place, index in enumerate(task.indices("train")):
        pixels = torch.from_numpy(raw.images[index] / 255).permute(2, 0, 1)
        mean, deviation = (
            torch.tensor(one)[:, None, None] for one in (task.description.mean, task.description.deviation)
        )
        torch.testing.assert_close(source[place].double(), (pixels - mean) / deviation, atol=1e-5, rtol=1e-5)
    assert batch["target"].tolist() == raw.targets[task.indices("train")].tolist()
    assert (batch["nsentences"], batch["ntokens"], batch["id"].tolist()) == (24, 24, [*range(24)])


def test_the_validation_set_is_stratified_and_drawn_by_its_seed(folder):
    parts = {seed: [task_of(folder, split_seed=seed).indices(part).tolist() for part in ("train", "valid")]
             for seed in (1, 2)}  # fmt: skip
    for train, valid in parts.values():
        assert sorted(train + valid) == list(range(30))
        assert sorted(index % 3 for index in valid) == [0, 0, 1, 1, 2, 2]
    assert parts[1] == [task_of(folder).indices(part).tolist() for part in ("train", "valid")] != parts[2]


def by_loops(image, crop, is_flipped, centre, fill):
    """An augmented image (C, H, W), pixel by pixel."""
    channels, height, width = image.shape
    found = np.zeros_like(image)
    for channel in range(channels):
        for row in range(height):
            for column in range(width):
                left = width - 1 - column if is_flipped else column
                above, beside = row + crop[0] - PADDING, left + crop[1] - PADDING
                if 0 <= above < height and 0 <= beside < width:
                    found[channel, row, column] = image[channel, above, beside]
                half = CUT_OUT // 2
                if fill is not None and -half <= row - centre[0] < half and -half <= column - centre[1] < half:
                    found[channel, row, column] = fill[channel]
    return found


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 999), st.integers(3, 13), st.integers(3, 13), st.sampled_from([1, 3]), st.booleans())
def test_augmentations_are_those_of_plain_loops(seed, height, width, channels, has_cut_outs):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (5, channels, height, width), dtype=np.uint8)
    fill = random.integers(0, 256, channels, dtype=np.uint8) if has_cut_outs else None
    augmentation = Augmentation(9, height, width, fill, random)
    chosen = random.permutation(9)[:5]
    found = augmentation(images, chosen)
    assert found.dtype == np.uint8
    for image, index, one in zip(images, chosen, found, strict=True):
        drawn = augmentation.crops[:, index], augmentation.flips[index], augmentation.centres[:, index]
        np.testing.assert_array_equal(one, by_loops(image, *drawn, fill))


def test_draws_cover_all_crops_and_centres_evenly():
    drawn = Augmentation(20_000, 5, 7, None, np.random.default_rng(1))
    for values, count in ((drawn.crops[0], 9), (drawn.crops[1], 9), (drawn.centres[0], 5), (drawn.centres[1], 7)):
        counts = np.bincount(values, minlength=count)
        assert len(counts) == count and abs(counts * count / 20_000 - 1).max() < 0.15
    assert abs(drawn.flips.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(np.vstack([drawn.crops, drawn.centres, drawn.flips])) - np.eye(5)).max() < 0.05


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_what_training_sees_depends_on_seed_epoch_and_image_alone(folder, augment):
    def sources(order, epoch, seed=1):
        dataset = task_of(folder, augment_images=augment, seed=seed, split_seed=1).load_dataset("train")
        dataset.set_epoch(epoch)
        batches = [dataset.collater(order[first : first + 7]) for first in range(0, 24, 7)]
        rows = torch.cat([batch["net_input"]["source"] for batch in batches])
        return rows[torch.cat([batch["id"] for batch in batches]).argsort()]

    first = sources([*range(24)], 3)
    assert torch.equal(first, sources([*range(23, -1, -1)], 3))
    is_drawn = augment != "none"
    assert torch.equal(first, sources([*range(24)], 4)) is not is_drawn
    assert torch.equal(first, sources([*range(24)], 3, seed=2)) is not is_drawn
    valid = task_of(folder, augment_images=augment).load_dataset("valid")
    once, again = (valid.set_epoch(epoch) or valid.collater([0, 1])["net_input"]["source"] for epoch in (1, 2))
    assert torch.equal(once, again)


def test_squares_are_filled_with_the_mean_colour():
    images = draw_images(1, 50, side=20)
    found = ImageDescription.of(images, LABELS)
    dataset = ImageDataset(images, np.arange(50), np.zeros(50, int), found, augment="crop-flip-cutout")
    source = dataset.collater([*range(50)])["net_input"]["source"]
    filled = (source.abs() < 0.5 / 255 / min(found.deviation) + 1e-4).all(dim=1).sum(dim=(1, 2))
    assert filled.min() >= CUT_OUT**2 // 4 and filled.max() >= CUT_OUT**2


def test_classes_are_those_of_the_training_set_in_whatever_order(tmp_path):
    write_images(tmp_path, SIZES)
    pack(tmp_path / "test.tar", members("test", draw_images(1, 2), ("owl", "cat")))
    assert task_of(tmp_path).load_dataset("test").targets.tolist() == [2, 0]


REFUSED = {
    "has images of 5 x 5 pixels and 3 channels, but the training data has 6 x 6 pixels and 3 channels": {"side": 5},
    "has images of 6 x 6 pixels and 1 channels, but the training data has": {"channels": 1},
}


@pytest.mark.parametrize(("sentence", "options"), REFUSED.items(), ids=["size", "channels"])
def test_a_test_set_of_another_kind_is_refused_and_training_warns_of_it(tmp_path, caplog, sentence, options):
    write_images(tmp_path, {"train": 30})
    pack(tmp_path / "test.tar", members("test", draw_images(1, 6, **options)))
    with pytest.raises(UserError, match=f"^{tmp_path}/test.tar {sentence}"):
        task_of(tmp_path).load_dataset("test")
    with caplog.at_level("WARNING"):
        assert len(task_of(tmp_path).load_dataset("train")) == 24
    assert any(f"cannot be scored on the test set: {tmp_path}/test.tar {sentence}" in text for text in caplog.messages)


def test_what_is_missing_or_wrong_is_named(tmp_path, folder):
    with pytest.raises(UserError, match=r"^there is no folder .*/nothing: name one that has train\.tar"):
        task_of(tmp_path / "nothing").load_dataset("train")
    with pytest.raises(UserError, match=r"^there is no train\.tar or train\.tar\.gz in"):
        task_of(tmp_path).load_dataset("train")
    with pytest.raises(UserError, match=r"^there is no set 'dev' of images: take one of train, valid, test"):
        task_of(folder).load_dataset("dev")
    with pytest.raises(UserError, match=r"^--valid-ratio must be a number from 0 to 0\.999, not 1"):
        task_of(folder, valid_ratio=1.0)
    for name in ("train.tar", "train.tar.gz"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"has both train\.tar and train\.tar\.gz: leave one of them there"):
        task_of(tmp_path).load_dataset("train")


def test_prepared_digits_are_those_of_scikit_learn(tmp_path):
    write_digits(tmp_path / "data-bin")
    folder = ImageFolder(tmp_path / "data-bin")
    digits, parts = load_digits(), [folder.read(split) for split in ("train", "test")]
    assert [len(part) for part in parts] == [1437, 360]
    for part in parts:
        assert np.bincount(part.targets).min() >= 0.09 * len(part)
    known = {image.astype(int).tobytes(): digit for image, digit in zip(digits.images, digits.target, strict=True)}
    found = {}
    for part in parts:
        for image, target in zip(part.images[..., 0] / 255 * 16, part.targets, strict=True):
            found[image.round().astype(int).tobytes()] = int(part.labels[target])
    assert found == known


STATE = {"height": 6, "width": 6, "mean": [0.5] * 3, "deviation": [0.2] * 3, "labels": [*LABELS]}
CHANGES = {
    "its description of the images is invalid": [{"labels": 7}, {"mean": ["x"]}, {"mean": None}],
    "its images must have from 1 to 4,096 pixels a side": [
        {"height": 0},
        {"width": 5000},
        {"width": 6.0},
        {"height": True},
    ],
    "its means and deviations are not of the same channels": [{"mean": [0.5]}, {"mean": [], "deviation": []}],
    "its means must be finite and its deviations above 0": [{"mean": [float("nan")] * 3}, {"deviation": [0.0] * 3}],
    "its labels are not the names of classes": [{"labels": []}, {"labels": ["a", "a"]}, {"labels": [["a"], "b"]}],
}


@pytest.mark.parametrize(("sentence", "change"), [(one, change) for one in CHANGES for change in CHANGES[one]])
def test_a_description_that_cannot_be_is_refused(sentence, change):
    assert plain_values(ImageDescription.from_state(STATE)) == STATE
    with pytest.raises(UserError, match=f"^{sentence}$"):
        ImageDescription.from_state(STATE | change)
    for nothing in (None, 7, [], {}):
        with pytest.raises(UserError, match="its description of the images is invalid"):
            ImageDescription.from_state(nothing)


def test_without_pillow_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("ea_fairseq.images.archive.find_spec", lambda name: None)
    digits = data_set("digits")
    with pytest.raises(UserError, match="images need Pillow, which is not installed"):
        digits.prepare(digits.options([str(tmp_path / "out")]))
    assert not (tmp_path / "out").exists()
