"""Averages of checkpoints: the mean of the right ones, whole, safe, and ready for fairseq."""

import math
import os
import re
import subprocess
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import save_dictionaries, save_loud
from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.averaging import EPOCH, UPDATES, average, best, chosen, last, mean, require_same_model
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import DataBin
from warm_python import folder_of_python

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4)
SCRIPT = ROOT / "scripts" / "average_checkpoints.py"


def checkpoint(name: str, updates: int = 1, validation: float | None = None, model: dict | None = None, **options):
    """A checkpoint in memory with the parts that fairseq's have."""
    state = {
        "cfg": {"checkpoint": options, "task": {}},
        "model": {"w": torch.tensor([float(updates)])} if model is None else model,
        "optimizer_history": [{"num_updates": updates}],
        "extra_state": {"val_loss": validation},
        "last_optimizer_state": {"state": torch.zeros(1000)},
    }
    return Checkpoint(Path(name), state)


def save(folder: Path, name: str, *arguments, **options) -> None:
    checkpoint(str(folder / name), *arguments, **options).write()


def run_script(*arguments, python: str | Path = sys.executable) -> subprocess.CompletedProcess:
    return subprocess.run([python, SCRIPT, *arguments], cwd="/", capture_output=True, text=True)


@given(st.lists(FLOATS, min_size=1, max_size=5))
def test_the_mean_is_the_mean(rows):
    found = mean([torch.tensor(row) for row in rows])
    expected = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.tensor(expected, dtype=torch.float64).float())


@given(FLOATS, st.integers(1, 12), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
def test_the_average_of_equal_tensors_is_the_tensor_bit_for_bit(row, count, precision):
    tensor = torch.tensor(row).to(precision)
    tensor = tensor[tensor.isfinite()]
    found = mean([tensor.clone() for _ in range(count)])
    assert found.dtype == precision
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))  # the sign of a zero, too


@given(st.permutations(range(4)))
@settings(max_examples=10)
def test_the_order_of_the_arguments_does_not_matter(order):
    drawn = [torch.randn(50, generator=torch.Generator().manual_seed(seed)) * 10**seed for seed in range(4)]
    made = [
        checkpoint(f"{seed}.pt", 5, model={"w": tensor, "n": torch.tensor(seed)}) for seed, tensor in enumerate(drawn)
    ]
    found, expected = average([made[index] for index in order]), average(made)
    assert torch.equal(found["model"]["w"], expected["model"]["w"])
    assert found["averaged"] == expected["averaged"] == ["0.pt", "1.pt", "2.pt", "3.pt"]
    assert found["model"]["n"] == 3  # whole numbers are the last checkpoint's


def test_tied_parameters_stay_tied_and_the_optimizer_is_left_out(tmp_path):
    made = []
    for updates in (1, 2):
        weight = torch.full((100,), float(updates))
        made.append(checkpoint("c.pt", updates, model={"embedding": weight, "projection": weight, "other": weight + 1}))
    averaged = average(made)
    model = averaged["model"]
    assert model["embedding"].data_ptr() == model["projection"].data_ptr() != model["other"].data_ptr()
    assert [model[name][0].item() for name in ("embedding", "other")] == [1.5, 2.5]
    assert "last_optimizer_state" not in averaged
    assert made[1].state["model"]["embedding"][0] == 2  # what was read stays as it was


def test_half_precision_rounds_the_mean_once_and_keeps_ties_and_whole_numbers():
    weight = torch.tensor([1.0, 1.0 + 2**-10])  # their mean, 1 + 2**-11, is no number of float16
    made = [
        checkpoint("c.pt", step, model={"embedding": row, "projection": row, "n": torch.tensor(2**20 + step)})
        for step, row in enumerate(weight.split(1))
    ]
    model = average(made, half=True)["model"]
    assert model["embedding"].dtype == torch.float16 and model["embedding"] == weight.mean().half()
    assert model["embedding"].data_ptr() == model["projection"].data_ptr()
    assert model["n"] == 2**20 + 1


def names(checkpoints: list[Checkpoint]) -> list[str]:
    return [found.path.name for found in checkpoints]


def test_the_last_epochs_are_the_last_by_number_and_updates_stand_in_for_them(tmp_path):
    for name in ("checkpoint_1_150.pt", "checkpoint_2_30.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        save(tmp_path, name)
    assert names(last(tmp_path, 1, EPOCH, UPDATES)) == ["checkpoint_1_150.pt"]
    for name in ("checkpoint9.pt", "checkpoint10.pt", "checkpoint11.pt.tmp"):
        save(tmp_path, name)
    assert names(last(tmp_path, 2, EPOCH, UPDATES)) == ["checkpoint9.pt", "checkpoint10.pt"]
    assert names(last(tmp_path, 2, UPDATES)) == ["checkpoint_2_30.pt", "checkpoint_1_150.pt"]
    with pytest.raises(UserError, match="has 2 checkpoints to average, not 3"):
        last(tmp_path, 3, EPOCH, UPDATES)


@pytest.mark.parametrize("higher_is_better", [False, True])
def test_the_best_are_those_of_the_best_validation_each_once(tmp_path, higher_is_better):
    options = {"maximize_best_checkpoint_metric": higher_is_better}
    sign = -1 if higher_is_better else 1
    for epoch, score in enumerate([5.0, 3.0, 4.0, 3.0, None], 1):
        save(tmp_path, f"checkpoint{epoch}.pt", epoch * 10, score and sign * score, **options)
    save(tmp_path, "checkpoint_best.pt", 20, sign * 3.0, **options)
    save(tmp_path, "checkpoint_last.pt", 50, None, **options)
    save(tmp_path, "checkpoint.best_loss_4.0001.pt", 30, sign * 4.0, **options)
    for epoch, diverged in ((6, math.nan), (7, -sign * math.inf)):
        save(tmp_path, f"checkpoint{epoch}.pt", epoch * 10, diverged, **options)
    assert sorted(found.updates for found in best(tmp_path, 1)) == [40]
    assert sorted(found.updates for found in best(tmp_path, 3)) == [20, 30, 40]
    with pytest.raises(UserError, match="has 4 checkpoints"):
        best(tmp_path, 5)


def test_averages_are_not_averaged_again(tmp_path):
    for epoch in (1, 2):
        save(tmp_path, f"checkpoint{epoch}.pt", epoch, 5.0 - epoch)
    made = average(last(tmp_path, 2, EPOCH))
    for name in ("checkpoint.avg2.pt", "checkpoint_released.pt", "checkpoint3.pt"):
        Checkpoint(tmp_path / name, made).write()
    assert names(best(tmp_path, 1)) == ["checkpoint2.pt"]
    assert names(last(tmp_path, 2, EPOCH, UPDATES)) == ["checkpoint1.pt", "checkpoint2.pt"]


def test_nothing_to_average_is_a_sentence(tmp_path):
    for select in (lambda: last(tmp_path, 1, EPOCH, UPDATES), lambda: best(tmp_path, 1)):
        with pytest.raises(UserError, match="has no checkpoints to average: give"):
            select()


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("nowhere", "there is no folder .*nowhere: give that of"), ("a file", "need one folder of checkpoints, and not")],
)
def test_a_folder_that_is_none_is_named(tmp_path, place, sentence):
    (tmp_path / "a file").touch()
    args = Namespace(last=3, last_updates=None, best=None, checkpoints=[tmp_path / place])
    with pytest.raises(UserError, match=sentence):
        chosen(args)


def test_a_training_without_epoch_checkpoints_is_told_what_to_do(tmp_path):
    save(tmp_path, "checkpoint_last.pt")
    with pytest.raises(UserError, match="train to the end of an epoch, without --no-epoch-checkpoints"):
        last(tmp_path, 1, EPOCH, UPDATES)


@pytest.mark.parametrize(
    ("model", "culprit"),
    [
        ({"a": torch.zeros(2, 3)}, "b is 4 in the one, missing in the other"),
        ({"a": torch.zeros(3, 2), "b": torch.zeros(4)}, "a is 2 x 3 in the one, 3 x 2 in the other"),
        ({"a": torch.zeros(2, 3), "b": torch.zeros(4), "c": torch.zeros(1)}, "c is missing in the one, 1 in the other"),
    ],
)
def test_checkpoints_of_different_models_are_refused_by_their_first_parameter(model, culprit):
    one = checkpoint("one.pt", model={"a": torch.zeros(2, 3), "b": torch.zeros(4)})
    with pytest.raises(UserError, match=f"one.pt and other.pt are of different models.*: {culprit}"):
        require_same_model(one, checkpoint("other.pt", model=model))


class Hostile:
    def __init__(self, trap: Path):
        self.trap = trap

    def __reduce__(self):
        return os.mkdir, (str(self.trap),)


def test_a_hostile_checkpoint_is_refused_and_runs_nothing(tmp_path):
    torch.save({"model": Hostile(tmp_path / "trap")}, tmp_path / "hostile.pt")
    with pytest.raises(UserError, match=r"hostile.pt is refused: it wants to run \w+.mkdir, and a checkpoint is data"):
        Checkpoint.read(tmp_path / "hostile.pt")
    assert not (tmp_path / "trap").exists()


def test_what_is_no_whole_checkpoint_is_named(tmp_path):
    save(tmp_path, "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    torch.save({"model": {}}, tmp_path / "other.pt")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("a/b", "c")
    contents = {"cut.pt": whole[: len(whole) // 2], "text.pt": b"no checkpoint", "empty.pt": b"", "zeros.pt": bytes(99)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    flaws = {
        "cut.pt": "is not whole",
        **dict.fromkeys(("text.pt", "empty.pt", "zeros.pt", "zip.pt"), "is not a checkpoint of fairseq"),
        "other.pt": "is not a checkpoint of a training",
        "absent.pt": "there is no checkpoint",
    }
    for name, flaw in flaws.items():
        with pytest.raises(UserError, match=flaw) as refused:
            Checkpoint.read(tmp_path / name)
        assert name in str(refused.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """'a model' holds checkpoints of two seeds of a model that evolves, beside the dictionaries of its data."""
    folder = save_dictionaries(tmp_path_factory.mktemp("some data"))
    (folder / "a model").mkdir()
    for seed in (1, 2):
        save_loud(folder, folder / "a model" / f"checkpoint{seed}.pt", seed=seed)
    return folder


def test_the_command_lists_what_it_averages_and_fairseq_loads_it(trained, tmp_path):
    files = [trained / "a model" / f"checkpoint{seed}.pt" for seed in (1, 2)]
    outputs = [tmp_path / name for name in ("an average.pt", "again.pt")]
    printed = [run_script(trained / "a model", "--last", "2", "--output", outputs[0])]
    printed.append(run_script(*reversed(files), "--output", outputs[1], python=folder_of_python() / "python"))
    assert [result.returncode for result in printed] == [0, 0], printed
    assert printed[0].stdout == printed[1].stdout
    assert re.findall(r"^  (\S+): 0 updates", printed[0].stdout, re.MULTILINE) == ["checkpoint1.pt", "checkpoint2.pt"]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.pt", "an average.pt"]

    paths = [str(path) for path in (*files, outputs[0])]
    models = [checkpoint_utils.load_model_ensemble_and_task([path], {"data": str(trained)})[0][0] for path in paths]
    one, other, averaged = (model.state_dict() for model in models)
    for name, parameter in averaged.items():
        assert torch.equal(parameter, ((one[name].double() + other[name].double()) / 2).float()), name


def test_a_model_of_other_languages_or_vocabulary_is_refused(trained, tmp_path):
    read = Checkpoint.read(trained / "a model" / "checkpoint1.pt")

    def data(*languages: str, types: str | None = None) -> DataBin:
        folder = tmp_path / f"{'-'.join(languages)}{len(types or '')}"
        folder.mkdir()
        save_dictionaries(folder)
        (folder / f"test.{'-'.join(languages)}.{languages[0]}.idx").touch()
        if types:
            (folder / "dict.tgt.txt").write_text(types)
        return DataBin(folder)

    read.require_data(data("src", "tgt"))
    with pytest.raises(UserError, match=r"checkpoint1.pt translates src-tgt, and .* is tgt-src: give the data"):
        read.require_data(data("tgt", "src"))
    with pytest.raises(UserError, match=r"a vocabulary of 44 types, and that of .* has 6 \(tgt\)"):
        read.require_data(data("src", "tgt", types="w0 1\nw1 1\n"))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--output", "x.pt"], "CHECKPOINT"),
        (["a.pt", "--last", "2", "--output", "x.pt"], "there is no folder a.pt: give that of"),
        (["a.pt", "--last", "0", "--output", "x.pt"], "--last: needs a whole number of at least 1"),
        (["a.pt", "--last", "2", "--best", "2", "--output", "x.pt"], "not allowed with"),
        (["a.pt"], "--output"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments, culprit, monkeypatch, capsys):
    from ea_fairseq.experiments.runs import averaging
    from ea_fairseq.plain.commands import run

    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    with pytest.raises(SystemExit) as ended:
        run(averaging.main)
    assert culprit in str(ended.value) and "\n" not in str(ended.value)


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_that_was_there(tmp_path, monkeypatch):
    save(tmp_path, "average.pt")
    before = (tmp_path / "average.pt").read_bytes()

    def write_some(state, file):
        file.write(b"some")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", write_some)
    with pytest.raises(OSError, match="No space left") as error:
        save(tmp_path, "average.pt", 7)
    assert error.value.filename.endswith("average.pt")
    assert (tmp_path / "average.pt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["average.pt"]
