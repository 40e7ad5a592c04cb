"""fairseq's commands train models of time series, tune, evaluate and continue them; Python predicts by them."""

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from commands import PLUGIN, program, run_well
from ea_fairseq import EARobertaModel, EATimeSeries, UserError
from ea_fairseq.series.ts_file import read_ts
from forked import run_forked, run_forked_well
from hostile_watch import watching
from reversal import logged, losses_of
from time_series import CORPORA, needs_corpora, write_folder

SIZES = {"train": 40, "test": 12}
TINY = ["--width", "16", "--blocks", "1", "--encoder-attention-heads", "2", "--ffn-width", "16"]
COMMON = ["--user-dir", PLUGIN, "--cpu", "--batch-size", "8", "--required-batch-size-multiple", "1"]
COMMON += ["--log-format", "json", "--log-interval", "1"]
TASKS = {"time_series_prediction": "sentence_prediction", "masked_time_series": "masked_values"}


def command(data, folder, updates, *flags, task="time_series_prediction", arch="ea_dc_transformer", sizes=TINY):
    """A training that logs every update."""
    found = ["fairseq-train", data, "--task", task, "--criterion", TASKS[task], "--arch", arch, *sizes, *COMMON]
    found += ["--optimizer", "radam", "--lr", "0.01", "--seed", "1", "--save-dir", folder, "--max-update", updates]
    return [*found, "--no-epoch-checkpoints", *flags]


def accuracy_of(folder: Path, path: Path) -> float:
    """The share of a file's series whose class a model predicts."""
    test = read_ts(path)
    found = EATimeSeries.from_pretrained(folder).predict(test.series)
    return np.mean([one.label == test.labels[target] for one, target in zip(found, test.targets, strict=True)])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("user")
    write_folder(home / "my classes", SIZES)
    write_folder(home / "my numbers", SIZES, labels=None)
    return home


@pytest.fixture(scope="module")
def trained(home):
    """The log of a training of five updates, and its folder."""
    flags = ["--valid-ratio", "0.4", "--adam-betas", "(0.9, 0.98)"]
    return run_forked_well(*command("my classes", "classes", 5, *flags), cwd=home), home / "classes"


@pytest.mark.parametrize(
    ("task", "criterion"),
    [
        ("time_series_prediction", "cross_entropy"),
        ("time_series_prediction", "masked_values"),
        ("masked_time_series", "sentence_prediction"),
    ],
)
def test_a_task_names_the_criterion_that_it_needs(home, task, criterion):
    line = command("my classes", "none", 1, "--criterion", criterion, task=task)
    result = run_forked(*line, cwd=home)
    assert result.returncode
    assert result.stderr.splitlines()[-1] == f"fairseq-train: --task {task} needs --criterion {TASKS[task]}"


def test_five_updates_train_a_model_that_predicts_without_its_data(home, trained):
    log, folder = trained
    assert list(losses_of(log)) == [1, 2, 3, 4, 5]
    assert len(logged(log, "valid_accuracy")) == 2
    with watching(home) as seen:
        model = EATimeSeries.from_pretrained(folder, "checkpoint_last.pt")
    assert not seen
    assert type(model.model).from_pretrained(folder, "checkpoint_last.pt").description == model.description
    test = read_ts(home / "my classes/test.ts.gz")
    found = model.predict(test.series)
    assert {prediction.label for prediction in found} <= {"low", "high"}
    assert all(sum(prediction.probabilities.values()) == pytest.approx(1) for prediction in found)
    alone = model.predict(test.series[3])
    assert alone.probabilities == pytest.approx(found[3].probabilities, abs=1e-5)
    for series, sentence in {
        (5, 2): r"^series 0 must be an array \(T, 3\), steps and channels, and it is \(5, 2\)",
        (30, 3): r"^series 0 has 30 steps, but the model reads at most 9",
    }.items():
        with pytest.raises(UserError, match=sentence):
            model.predict(np.zeros(series))
    with pytest.raises(UserError, match=r"^series 0 has an infinite value: use NaN for missing values"):
        model.predict(np.full((2, 3), np.inf))
    for wrong in ("low", (test.series[0], test.series[1][:1]), [test.series[0], "low"]):
        with pytest.raises(UserError, match=r"^series [01] must be an array of numbers"):
            model.predict(wrong)
    with pytest.raises(UserError, match=r"^batch_size must be at least 1, not 0"):
        model.predict(test.series, batch_size=0)
    assert model.predict([]) == []
    with pytest.raises(UserError, match=r"^there are no series: give at least one$"):
        model.representations([])
    with pytest.raises(UserError, match=r"^it must be one checkpoint"):
        EATimeSeries.from_pretrained(folder, "checkpoint_last.pt:checkpoint_best.pt")
    with pytest.raises(UserError, match=r"it must be one checkpoint of an encoder: .* EATimeSeries for time series"):
        EARobertaModel.from_pretrained(folder, "checkpoint_last.pt", home / "my classes")


CHANGES = {
    "the checkpoint does not fit the model: .*sentence_classification_head.*is 2": {"labels": ["a", "b", "c"]},
    "the checkpoint does not fit the model: ": {"mean": [0.0] * 4_000, "deviation": [1.0] * 4_000},
    "its means must be finite and its deviations above 0": {"mean": [math.nan] * 3},
    "its labels are not the names of classes": {"labels": ["a", "\x1b]0;owned\x07"]},
    "its description of the series is invalid": {"labels": 7},
    "its description must say whether values are normalized, true or false": {"normalized": None},
}


@pytest.mark.parametrize(("sentence", "change"), CHANGES.items(), ids=lambda part: str(part)[:30])
def test_a_changed_description_is_refused_in_a_sentence(home, trained, sentence, change):
    path = trained[1] / "changed.pt"
    state = torch.load(trained[1] / "checkpoint_last.pt")
    state["task_state"]["series"].update(change)
    torch.save(state, path)
    with watching(home) as seen, pytest.raises(UserError, match=f"changed.pt: {sentence}"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert not seen


@pytest.mark.slow
def test_a_training_goes_on_where_it_ended(home):
    whole = losses_of(run_forked_well(*command("my classes", "whole", 9), cwd=home))
    parts = [losses_of(run_forked_well(*command("my classes", "halves", updates), cwd=home)) for updates in (5, 9)]
    assert parts[0] | parts[1] == whole


@pytest.mark.slow
def test_a_set_is_evaluated_by_fairseq_validate(home):
    run_forked_well(*command("my classes", "evaluated", 60), cwd=home)
    path = "evaluated/checkpoint_best.pt"
    evaluation = ["--task", "time_series_prediction", "--path", path, "--valid-subset", "test", *COMMON]
    log = run_well("fairseq-validate", "my classes", *evaluation, cwd=home)
    accuracy = float(log.split('"test_accuracy": "')[1].split('"')[0]) if "test_accuracy" in log else None
    assert accuracy is not None and accuracy > 80
    found = accuracy_of(home / "evaluated", home / "my classes/test.ts.gz")
    assert accuracy == pytest.approx(100 * found, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["dc_transformer", "time_series_gru"])
def test_numbers_are_predicted_and_their_rmse_is_logged(home, arch):
    sizes = TINY if arch == "dc_transformer" else TINY[:4]
    regression = ["--regression-target", "--best-checkpoint-metric", "rmse"]
    log = run_forked_well(*command("my numbers", f"numbers {arch}", 150, *regression, arch=arch, sizes=sizes), cwd=home)
    rmse, losses = logged(log, "valid_rmse"), logged(log, "valid_loss")
    assert rmse == [pytest.approx(math.sqrt(loss * math.log(2)), abs=2e-3) for loss in losses]
    assert min(rmse) < rmse[0]
    model = EATimeSeries.from_pretrained(home / f"numbers {arch}")
    train = read_ts(home / "my numbers/train.ts.gz")
    errors = np.array(model.predict(train.series)) - train.targets
    assert np.sqrt(np.square(errors).mean()) < 1.0
    refused = run_forked(*command("my numbers", "refused", 1, arch=arch, sizes=sizes), cwd=home)
    assert refused.stderr.splitlines()[-1] == (
        "fairseq-train: these time series have numbers to predict: give --regression-target"
    )


@pytest.mark.slow
def test_masked_values_are_learned_and_the_representation_is_tuned(home):
    masked = {"task": "masked_time_series", "arch": "dc_transformer"}
    log = run_forked_well(*command("my classes", "masked", 40, **masked), cwd=home)
    losses = list(losses_of(log).values())
    assert sum(losses[-10:]) < sum(losses[:10])
    tuning = command("my classes", "tuned", 5, "--finetune-from-model", "masked/checkpoint_last.pt")
    log = run_forked_well(*tuning, cwd=home)
    assert "the checkpoint was trained for another task" in log
    assert "convolutions with 76 parameters are new and start as the identity" in log
    assert len(losses_of(log)) == 5


@pytest.mark.slow
@needs_corpora
def test_japanese_vowels_are_told_apart(tmp_path):
    """100 epochs, two minutes on one core."""
    flags = ["--batch-size", "64", "--lr", "0.001", "--max-epoch", "100", "--log-interval", "100"]
    flags += ["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"]
    long = command(CORPORA / "JapaneseVowels", "vowels", 1000, *flags, sizes=[])
    subprocess.run([program(long[0]), *map(str, long[1:])], cwd=tmp_path, check=True, timeout=1200)
    assert accuracy_of(tmp_path / "vowels", CORPORA / "JapaneseVowels/JapaneseVowels_TEST.ts.gz") > 0.95
