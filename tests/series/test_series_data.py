"""What becomes of series on their way from files to models: description, split, masks and their loss, batches."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ea_fairseq.criterions.masked_values import MaskedValuesCriterion
from ea_fairseq.errors import UserError
from ea_fairseq.plain.descriptions import plain_values
from ea_fairseq.series.dataset import MaskedSeriesDataset, SeriesDataset, draw_segments
from ea_fairseq.series.description import SeriesDescription
from ea_fairseq.tasks.masked_time_series import MaskedTimeSeriesConfig, MaskedTimeSeriesTask
from ea_fairseq.tasks.time_series import TimeSeriesConfig
from ea_fairseq.tasks.time_series_prediction import TimeSeriesPredictionTask
from time_series import LONGEST, describe, ts_text, write_folder, write_ts

SIZES = {"train": 20, "test": 6}


def task_of(folder, kind=TimeSeriesPredictionTask, **options):
    config = MaskedTimeSeriesConfig if kind is MaskedTimeSeriesTask else TimeSeriesConfig
    return kind(config(**{"data": str(folder), "seed": 1, **options}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("series"), SIZES)


def test_what_models_read_has_mean_0_and_deviation_1_over_the_training_part(folder):
    task = task_of(folder)
    train, valid = (task.load_dataset(split) for split in ("train", "valid"))
    assert (len(train), len(valid)) == (14, 6)
    known = ~np.isnan(np.concatenate(train.series))
    read = np.concatenate([train[index]["source"].numpy() for index in range(len(train))])
    np.testing.assert_array_equal(read[~known], 0.0)
    for channel in range(read.shape[1]):
        values = read[known[:, channel], channel]
        assert (values.mean(), values.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    plain = task_of(folder, normalize="none")
    raw, found = plain.load_dataset("test").series[0], plain.load_dataset("test")[0]["source"].numpy()
    np.testing.assert_array_equal(found[~np.isnan(raw)], raw[~np.isnan(raw)])
    np.testing.assert_allclose(found[np.isnan(raw)], np.broadcast_to(plain.description.mean, raw.shape)[np.isnan(raw)])


def test_numbers_to_predict_are_no_float16_with_fp16():
    series = [np.zeros((2, 1), dtype=np.float32)] * 2
    dataset = SeriesDataset(series, [3000.9, 70000.5], describe(channels=1), shuffle=False)
    options = SimpleNamespace(common=SimpleNamespace(fp16=True, bf16=False))
    halved = Trainer._fp_convert_sample(SimpleNamespace(cfg=options), dataset.collater([dataset[0], dataset[1]]))
    assert halved["net_input"]["source"].dtype is torch.float16
    torch.testing.assert_close(halved["target"].float(), torch.tensor([3000.9, 70000.5]))


def test_a_split_is_stratified_and_drawn_by_its_seed(folder, tmp_path):
    parts = {
        seed: [task_of(folder, split_seed=seed).indices(part).tolist() for part in ("train", "valid")]
        for seed in (1, 2)
    }
    for train, valid in parts.values():
        assert sorted(train + valid) == list(range(20))
        assert [index % 2 for index in valid].count(0) == 3
    assert parts[1] == [task_of(folder).indices(part).tolist() for part in ("train", "valid")]
    assert parts[1] != parts[2]
    with pytest.raises(UserError, match=r"^--valid-ratio 0\.05 of .* cannot be split off: The test_size = 1 should"):
        task_of(folder, valid_ratio=0.05).load_dataset("valid")
    (tmp_path / "train.ts").write_text("@targetLabel true\n@data\n1:2\n")
    with pytest.raises(UserError, match=r"test_size=0\.3 and train_size=None, the resulting train set will be empty"):
        task_of(tmp_path).load_dataset("valid")
    with pytest.raises(UserError, match=r"^with --valid-ratio 0 there is no validation set"):
        task_of(folder, valid_ratio=0).load_dataset("valid")
    assert len(task_of(folder, valid_ratio=0).load_dataset("train")) == 20


def test_every_nth_step_is_read(folder):
    whole, third = (task_of(folder, subsample=every).load_dataset("test").series for every in (1, 3))
    for one, part in zip(whole, third, strict=True):
        np.testing.assert_array_equal(part, one[::3])


def test_batches_are_padded_at_the_end(folder):
    data = task_of(folder).load_dataset("test")
    batch = data.collater([data[index] for index in range(len(data))])
    source, padding = batch["net_input"]["source"], batch["net_input"]["padding_mask"]
    assert source.shape[:2] == padding.shape == (6, max(data.sizes))
    assert batch["target"].tolist() == data.targets
    assert batch["ntokens"] == sum(data.sizes) == int((~padding).sum())
    for row, one in enumerate(data.series):
        assert padding[row].tolist() == [False] * len(one) + [True] * (padding.size(1) - len(one))
        assert not source[row][padding[row]].any()


def test_labels_are_those_of_the_training_set_in_whatever_order(tmp_path):
    series = [np.ones((2, 1), np.float32)] * 2
    for split, labels in {"train": ("a", "b"), "valid": ("a", "b"), "test": ("b", "a")}.items():
        write_ts(tmp_path / f"{split}.ts", ts_text(series, [0, 1], labels))
    task = task_of(tmp_path)
    assert (task.load_dataset("valid").targets, task.load_dataset("test").targets) == ([0, 1], [1, 0])


REFUSED = {
    "has 2 channels, but the training data has 1": ([np.ones((2, 2))], [0], ("a",)),
    "has a series of 3 steps, but the model reads at most 2: train with a higher": ([np.ones((3, 1))], [0], ("a",)),
    "has the class 'c', which the training set does not have": ([np.ones((2, 1))], [0], ("a", "c")),
    "has numbers to predict, but the training set has classes": ([np.ones((2, 1))], [0.5], None),
}


@pytest.mark.parametrize(("sentence", "test"), REFUSED.items(), ids=lambda part: str(part)[:20])
def test_a_test_set_of_another_kind_is_refused_and_training_warns_of_it(tmp_path, caplog, sentence, test):
    for split in ("train", "valid"):
        write_ts(tmp_path / f"{split}.ts", ts_text([np.ones((2, 1))] * 2, [0, 1], ("a", "b")))
    write_ts(tmp_path / "test.ts", ts_text(*test))
    with pytest.raises(UserError, match=f"^{tmp_path}/test.ts {sentence}"):
        task_of(tmp_path, max_positions=2).load_dataset("test")
    task = task_of(tmp_path, max_positions=2)
    with caplog.at_level("WARNING"):
        assert len(task.load_dataset("train")) == 2
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"the model cannot be scored on the test set: {tmp_path}/test.ts {sentence}")


def test_files_that_are_not_there_or_there_twice_are_named(tmp_path):
    with pytest.raises(UserError, match=r"^there is no folder .*/nothing: name one"):
        task_of(tmp_path / "nothing").load_dataset("train")
    with pytest.raises(UserError, match=r"^there is no train.ts or train.ts.gz in"):
        task_of(tmp_path).load_dataset("train")
    write_folder(tmp_path, SIZES)
    with pytest.raises(UserError, match=r"^there is no set 'dev' of time series"):
        task_of(tmp_path).load_dataset("dev")
    (tmp_path / "Made_TRAIN.ts").write_text("")
    with pytest.raises(UserError, match=r"has both Made_TRAIN.ts and train.ts.gz: leave one"):
        task_of(tmp_path).load_dataset("train")


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (TimeSeriesPredictionTask, {"valid_ratio": 1.0}, "--valid-ratio must be a number from 0 to 0.999, not 1.0"),
        (TimeSeriesPredictionTask, {"subsample": 0}, "--subsample must be a number from 1"),
        (TimeSeriesPredictionTask, {"max_positions": 0}, "--max-positions must be a number from 1"),
        (MaskedTimeSeriesTask, {"mask_ratio": 1.0}, "--mask-ratio must be a number between 0 and 1, not 1.0"),
        (MaskedTimeSeriesTask, {"mask_length": 0.5}, "--mask-length must be 1 or more with --mask-ratio 0.15"),
        (MaskedTimeSeriesTask, {"mask_ratio": 0.8}, "--mask-length must be 4 or more with --mask-ratio 0.8"),
    ],
)
def test_a_flag_out_of_range_is_named(kind, given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        task_of("nothing", kind, **given)


def test_masked_segments_have_the_share_and_the_mean_length_that_are_asked_for():
    masked = draw_segments(4000, 25, 0.15, 3.0, np.random.default_rng(1))
    assert masked.mean() == pytest.approx(0.15, abs=0.01)
    segments = (masked[1:] & ~masked[:-1]).sum() + masked[0].sum()
    assert masked.sum() / segments == pytest.approx(3.0, rel=0.05)
    assert masked[1:].mean(axis=1).std() < 0.15  # channels are masked each by itself


def test_masks_are_drawn_by_seed_epoch_and_series_alone(folder):
    def masks(seed=1, epoch=1, order=range(14)):
        data = task_of(folder, MaskedTimeSeriesTask, seed=seed).load_dataset("train")
        data.set_epoch(epoch)
        return {index: data[index]["masked"] for index in order}

    first = masks()
    assert all(torch.equal(first[index], mask) for index, mask in masks(order=range(13, -1, -1)).items())
    for others in (masks(seed=2), masks(epoch=2)):
        assert any(not torch.equal(first[index], mask) for index, mask in others.items())


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_a_masked_value_is_read_as_a_missing_one_and_is_to_be_predicted(seed):
    series = np.random.default_rng(seed).standard_normal((LONGEST, 3)).astype(np.float32)
    series[seed % LONGEST, 1] = np.nan
    example = MaskedSeriesDataset([series], describe(), False, 0.4, 3.0, seed)[0]
    masked = example["masked"].numpy()
    assert not masked[np.isnan(series)].any()
    np.testing.assert_array_equal(example["target"].numpy()[masked], series[masked])
    hidden = masked | np.isnan(series)
    np.testing.assert_array_equal(example["source"].numpy(), np.where(hidden, 0.0, series))


def test_the_loss_is_the_sum_of_squared_errors_of_masked_values_and_is_logged_as_their_mean():
    generator, squares, logs = torch.Generator().manual_seed(1), [], []
    for sentences in (1, 3):
        target, predicted = torch.randn(2, sentences, 5, 2, generator=generator)
        masked = torch.rand(target.shape, generator=generator) < 0.3
        sample = {"net_input": {}, "target": target, "masked": masked, "ntokens": 5, "nsentences": sentences}
        loss, size, log = MaskedValuesCriterion(None)(lambda predicted=predicted: (predicted, {}), sample)
        errors = [(target[place] - predicted[place]).item() for place in map(tuple, masked.nonzero().tolist())]
        squares += [error**2 for error in errors]
        assert (loss.item(), size) == (pytest.approx(sum(squares[-len(errors) :])), len(errors))
        logs.append(log)
    with metrics.aggregate(new_root=True) as logged:
        MaskedValuesCriterion.reduce_metrics(logs)
    assert logged["loss"].avg == pytest.approx(np.mean(squares))
    assert logged.get_smoothed_value("rmse") == pytest.approx(np.sqrt(np.mean(squares)))


def test_a_description_comes_back_from_a_checkpoint_and_a_changed_one_is_refused():
    description = SeriesDescription.of([np.array([[1.0, np.nan], [3.0, 5.0]], np.float32)], True, 7, ("a", "b"))
    assert (description.mean, description.deviation) == ((2.0, 5.0), (1.0, 1.0))
    state = OmegaConf.to_container(OmegaConf.create(plain_values(description)))
    assert SeriesDescription.from_state(state) == description
    changes = {"mean": [1.0], "deviation": [0.0, 1.0], "longest": 1 << 40, "labels": ["a", "\x1b"], "normalized": None}
    for name, value in changes.items():
        with pytest.raises(UserError, match=r"^its "):
            SeriesDescription.from_state({**state, name: value})
    for broken in (None, [], {}, {**state, "mean": "ab"}):
        with pytest.raises(UserError, match=r"^its "):
            SeriesDescription.from_state(broken)
