"""A training survives kill -9 and a full disk, at any moment, without a trace in what it learns."""

import os
import re
import signal
from pathlib import Path

import pytest
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator

from ea_fairseq.errors import UserError
from ea_fairseq.fairseq_patches.saving import copy_whole, save_whole
from forked import run_forked, run_forked_well
from reversal import losses_of, train_command

UPDATES = 24
FLAGS = ["--save-interval-updates", "4", "--decoder-skip"]
# Runs fairseq-train and kills it: before update N, in the middle of saving the N-th checkpoint, or in the middle of
# the N-th copy of a checkpoint to another name.
KILLED_TRAINING = """
import io, os, shutil, signal, sys
from fairseq_cli.train import cli_main
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.trainer import Trainer

moment, count = os.environ["MOMENT"], int(os.environ["COUNT"])
train_step, save = Trainer.train_step, torch.save

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def write_half(content, file):
    file.write(content[: len(content) // 2])
    file.flush()
    die()

def last_time():
    global count
    count -= 1
    return count == 0

def train_step_or_die(self, *args, **kwargs):
    if self.get_num_updates() == count - 1:
        die()
    return train_step(self, *args, **kwargs)

def save_half(state, file):
    if not last_time():
        return save(state, file)
    whole = io.BytesIO()
    save(state, whole)
    write_half(whole.getvalue(), file)

def copy_half(source, target):
    if last_time():
        write_half(open(source, "rb").read(), open(target, "wb"))
    else:
        open(target, "wb").write(open(source, "rb").read())

if moment == "updating":
    Trainer.train_step = train_step_or_die
elif moment == "saving":
    torch.save = save_half
else:
    shutil.copyfile = copy_half
cli_main()
"""


def model_of(checkpoint: Path) -> dict[str, torch.Tensor]:
    return torch.load(checkpoint)["model"]


def train_and_kill(home, folder: str, moment: str, count: int) -> dict[int, float]:
    """Trains until the kill at this moment; returns the loss of each update that was logged."""
    command = train_command(folder, UPDATES, *FLAGS)
    result = run_forked(*command, cwd=home, code=KILLED_TRAINING, MOMENT=moment, COUNT=str(count))
    assert result.returncode == -signal.SIGKILL, result.stdout + result.stderr
    return losses_of(result.stdout + result.stderr)


@pytest.mark.slow
def test_a_training_that_is_killed_again_and_again_learns_what_it_would_have_learnt(home):
    """An epoch has 7 updates; checkpoints are saved, and copied to checkpoint_last.pt, every 4 updates and epoch."""
    undisturbed = losses_of(run_forked_well(*train_command("undisturbed", UPDATES, *FLAGS), cwd=home))
    assert list(undisturbed) == list(range(1, UPDATES + 1))

    first = train_and_kill(home, "killed", "updating", 7)
    assert list(first) == list(range(1, 7))
    second = train_and_kill(home, "killed", "saving", 2)  # that of update 8, after that of the epoch's end
    assert list(second) == [5, 6, 7, 8]
    third = train_and_kill(home, "killed", "copying", 4)
    assert min(third) == 8
    rest = losses_of(run_forked_well(*train_command("killed", UPDATES, *FLAGS), cwd=home))
    assert 8 < min(rest) <= max(third) < UPDATES
    assert first | second | third | rest == undisturbed
    for name, parameter in model_of(home / "undisturbed" / "checkpoint_last.pt").items():
        assert torch.equal(model_of(home / "killed" / "checkpoint_last.pt")[name], parameter), name


@pytest.mark.parametrize(
    ("resets", "last_epoch"), [([], 4), pytest.param(["--reset-meters"], 6, marks=pytest.mark.slow)]
)
def test_patience_goes_on_counting_in_a_resumed_training(home, tmp_path, resets, last_epoch):
    """Without learning, the first epoch is the best; fairseq would begin to count anew at the resumption."""
    flags = ["--lr", "0", "--patience", "3", "--max-update", "0", "--max-epoch"]
    for more in (["2"], ["10", *resets]):
        run_forked_well(*train_command(tmp_path, 0, *flags, *more), cwd=home)
    assert len(list(tmp_path.glob("checkpoint?.pt"))) == last_epoch


@pytest.mark.parametrize("updates", [5, 7], ids=["within an epoch", "between epochs"])
def test_the_clock_goes_on_in_a_resumed_training(home, tmp_path, updates):
    run_forked_well(*train_command(tmp_path, updates), cwd=home)
    last = tmp_path / "checkpoint_last.pt"
    state = torch.load(last, weights_only=False)
    state["extra_state"]["previous_training_time"] += 5000
    torch.save(state, last)
    log = run_forked_well(*train_command(tmp_path, 9), cwd=home)
    clock = [float(seconds) for seconds in re.findall(r'"wall": "([0-9.]+)"', log)]
    assert len(clock) == 9 - updates
    assert all(5000 <= seconds < 5100 for seconds in clock)


def test_a_full_disk_ends_the_training_in_a_sentence_and_leaves_the_previous_checkpoint(home):
    flags = ["--no-epoch-checkpoints", "--disable-validation"]
    undisturbed = losses_of(run_forked_well(*train_command("on a large disk", 8, *flags), cwd=home))
    losses = losses_of(run_forked_well(*train_command("on a small disk", 4, *flags), cwd=home))
    checkpoint = home / "on a small disk" / "checkpoint_last.pt"
    before = checkpoint.read_bytes()
    unfinished = checkpoint.with_name("checkpoint_last.pt.tmp")
    unfinished.symlink_to("/dev/full")

    result = run_forked(*train_command("on a small disk", 8, *flags), cwd=home)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith(
        "fairseq-train: could not save on a small disk/checkpoint_last.pt: No space left on device; "
    )
    assert checkpoint.read_bytes() == before
    assert not unfinished.is_symlink()

    losses |= losses_of(run_forked_well(*train_command("on a small disk", 8, *flags), cwd=home))
    assert losses == undisturbed


def save(path: Path):
    save_whole({"model": torch.zeros(100_000)}, str(path))


def copy(path: Path):
    source = path.with_name("source.pt")
    source.write_bytes(os.urandom(400_000))
    copy_whole(str(source), str(path), overwrite=True)


@pytest.mark.parametrize("write", [save, copy])
def test_a_checkpoint_is_replaced_whole_or_not_at_all(write, tmp_path):
    path, unfinished = tmp_path / "checkpoint.pt", tmp_path / "checkpoint.pt.tmp"
    path.write_text("previous")
    unfinished.symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"checkpoint\.pt: No space left on device"):
        write(path)
    assert path.read_text() == "previous"
    assert not unfinished.is_symlink()
    write(path)
    assert path.stat().st_size >= 400_000
    assert not unfinished.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(UserError, match=r"missing/checkpoint\.pt: No such file or directory"):
        save(tmp_path / "missing" / "checkpoint.pt")


class Sentences(FairseqDataset):
    """Ten sentences, one a batch."""

    def __getitem__(self, index):
        return index

    def __len__(self):
        return 10


def epochs_of(curriculum: int, first: int = 1) -> list[list[int]]:
    """The order of the sentences in four epochs of a training that is resumed at the beginning of one."""
    batches = [[number] for number in range(10)]
    iterator = EpochBatchIterator(
        Sentences(), lambda samples: samples[0], batches, epoch=first, reuse_dataloader=True, persistent_workers=False
    )
    return [list(iterator.next_epoch_itr(shuffle=epoch > curriculum)) for epoch in range(first, 5)]


def test_epochs_after_the_curriculum_are_shuffled_in_a_resumed_training_as_in_one_that_is_not():
    """fairseq keeps whether the first epoch was shuffled together with what loads its batches."""
    found = epochs_of(curriculum=2)
    assert found[:2] == [list(range(10))] * 2
    assert found[2] != found[3] and all(sorted(epoch) == list(range(10)) != epoch for epoch in found[2:])
    assert epochs_of(curriculum=2, first=3) == found[2:]
    assert epochs_of(curriculum=0)[2:] == found[2:]
