"""fairseq's commands train models of images and go on; bad flags and changed checkpoints end with a sentence."""

import pytest
import torch
from fairseq import checkpoint_utils

from commands import PLUGIN
from ea_fairseq import UserError
from forked import run_forked, run_forked_well
from hostile_watch import watching
from image_archives import write_images
from reversal import logged

COMMON = [
    "--user-dir",
    PLUGIN,
    "--cpu",
    "--task",
    "image_prediction",
    "--batch-size",
    "32",
    "--log-format",
    "json",
]
TRAINING = ["--arch", "vit_tiny", "--patch-size", "3", "--encoder-embed-dim", "8", "--encoder-layers", "1"]
TRAINING += ["--encoder-attention-heads", "2", "--encoder-ffn-embed-dim", "8"]
TRAINING += ["--criterion", "sentence_prediction", "--optimizer", "adam", "--lr", "0.01"]
TRAINING += ["--no-epoch-checkpoints", "--seed", "1"]


def command(data, folder, epochs, *flags):
    return ["fairseq-train", data, *COMMON, *TRAINING, "--save-dir", folder, "--max-epoch", epochs, *flags]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("user")
    write_images(home / "data", {"train": 60, "valid": 12, "test": 12})
    return home


@pytest.fixture(scope="module")
def log(home):
    return run_forked_well(*command("data", "whole", 3, "--image-cache", "cache"), cwd=home)


def test_a_resumed_training_sees_the_same(home, log):
    for epochs in (1, 3):
        rest = run_forked_well(*command("data", "parts", epochs), cwd=home)
    assert logged(rest, "valid_loss") == logged(log, "valid_loss")[1:]
    assert logged(log, "valid_accuracy") and not logged(log, "valid_top5_accuracy")  # of three classes
    whole, parts = (torch.load(home / name / "checkpoint_last.pt")["model"] for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert len([*(home / "cache").glob("*.npz")]) == 3 and len([*(home / "data").iterdir()]) == 3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--criterion", "cross_entropy"], "--task image_prediction needs --criterion sentence_prediction"),
        (["--regression-target"], "--regression-target is for numbers, and these images have classes"),
        (["--classification-head-name", "other"], "--classification-head-name is not for images"),
        (["--task", "time_series_prediction"], "there is no train.ts or train.ts.gz in"),
    ],
)
def test_bad_flags_end_with_a_sentence(home, flags, sentence):
    result = run_forked(*command("data", "none", 1, *flags), cwd=home)
    assert result.returncode and sentence in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


CHANGES = {
    "the checkpoint does not fit the model: ": {"labels": [*map(str, range(4000))]},
    "its means must be finite and its deviations above 0": {"mean": [float("inf")] * 3},
    "its images must have from 1 to 4,096 pixels a side": {"height": 1 << 40},
}


@pytest.mark.parametrize(("sentence", "change"), CHANGES.items(), ids=["classes", "mean", "height"])
def test_a_changed_description_is_refused_in_a_sentence(home, log, sentence, change):
    path = home / "whole/changed.pt"
    state = torch.load(home / "whole/checkpoint_last.pt")
    state["task_state"]["images"].update(change)
    torch.save(state, path)
    with watching(home) as seen, pytest.raises(UserError, match=f"changed.pt: {sentence}"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert not seen


def test_a_checkpoint_brings_its_description_and_no_place_for_files(home, log):
    path = str(home / "whole/checkpoint_last.pt")
    assert torch.load(path)["cfg"]["task"]["image_cache"] == "cache"
    _, _, task = checkpoint_utils.load_model_ensemble_and_task([path])
    assert task.cfg.image_cache is None
    assert (task.description.labels, task.description.height) == (("cat", "dog", "owl"), 6)
    overrides = {"image_cache": str(home / "mine"), "data": str(home / "data")}
    _, _, task = checkpoint_utils.load_model_ensemble_and_task([path], overrides)
    assert len(task.load_dataset("test")) == 12 and len([*(home / "mine").glob("test-*.npz")]) == 1
