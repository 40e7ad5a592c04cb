"""Training with several processes is training with one that sees the same sentences.

fairseq counts its processes by the GPUs it finds; without one it must be told their number. And it must add up the
gradients by itself, because torch's DistributedDataParallel refuses the number of a GPU that fairseq gives it.
"""

import dataclasses
import socket
from pathlib import Path

import pytest
import torch
import torch.distributed
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.parallel import DistributedDataParallel

from commands import program, run_python, run_well
from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.errors import UserError
from ea_fairseq.fairseq_patches.errors import message_for
from forked import Forked, run_forked_well
from laws import draw
from reversal import train_command
from tiny import TINY, build

UPDATES = 20
EXACT = ["--dropout", "0", "--decoder-skip", "--cross-skip", "--disable-validation", "--save-interval-updates", "1"]
EXACT += ["--max-tokens", "12"]  # 35 batches an epoch, an odd number, or 18 updates
TWO = ["--distributed-world-size", "2", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]


def history(folder: Path) -> list[dict]:
    """The checkpoints of a training that saved after each update, in order."""
    checkpoints = [torch.load(path) for path in folder.glob("checkpoint*[0-9].pt")]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint["optimizer_history"][-1]["num_updates"])


def loss(checkpoint: dict) -> float:
    """The loss of the update before a checkpoint, with all its digits; the log has three decimals."""
    meters = {name: state for _, name, _, state in checkpoint["extra_state"]["metrics"]["train"]}
    return float(meters["loss"]["val"])


def assert_same_training(actual: list[dict], expected: list[dict], tolerance: float):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert loss(one) == pytest.approx(loss(other), abs=tolerance)
        torch.testing.assert_close(one["model"], other["model"], rtol=0, atol=tolerance)


def train_by_torchrun(home: Path, folder: str) -> list[dict]:
    """Trains with two processes; torchrun finds a free port and tells each process its rank."""
    torchrun = ["torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    name, *arguments = train_command(folder, UPDATES, *EXACT, *TWO)
    run_well(*torchrun, program(name), *arguments, cwd=home)
    return history(home / folder)


def train_as_by_torchrun(home: Path, folder: str) -> list[dict]:
    """The same without torchrun, as two processes that are told what it would tell them: faster."""
    with socket.create_server(("localhost", 0)) as server:
        meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(server.getsockname()[1]), "WORLD_SIZE": "2"}
    command = train_command(folder, UPDATES, *EXACT, *TWO)
    processes = [Forked(*command, cwd=home, RANK=rank, LOCAL_RANK=rank, **meeting) for rank in "01"]
    for result in [process.wait() for process in processes]:
        assert result.returncode == 0, result.stdout + result.stderr
    return history(home / folder)


@pytest.fixture(scope="module")
def accumulated(home):
    """A training of one process that adds up the gradients of two batches for each update."""
    run_forked_well(*train_command("one process", UPDATES, *EXACT, "--update-freq", "2"), cwd=home)
    return history(home / "one process")


@pytest.fixture(scope="module")
def parallel(home):
    return train_as_by_torchrun(home, "two processes")


@pytest.mark.slow
@pytest.mark.parametrize("train", [train_by_torchrun, train_as_by_torchrun])
def test_two_processes_train_as_one_with_twice_the_update_freq(home, accumulated, train):
    """The last batch of an epoch is without a partner: the other process trains on none."""
    parallel = train(home, train.__name__)
    assert len(parallel) == UPDATES
    assert loss(parallel[-1]) < loss(parallel[0])
    assert_same_training(parallel, accumulated, tolerance=1e-5)


@pytest.mark.parametrize(
    "updates",
    [pytest.param(10, id="within an epoch"), pytest.param(18, id="between epochs", marks=pytest.mark.slow)],
)
def test_two_processes_continue_as_if_undisturbed(home, parallel, updates):
    folder = f"resumed after {updates}"
    (home / folder).mkdir()
    torch.save(parallel[updates - 1], home / folder / "checkpoint_last.pt")
    assert_same_training(train_as_by_torchrun(home, folder), parallel[updates:], tolerance=0)


SPAWN = """
import torch
torch.cuda.device_count = lambda: 2  # fairseq starts as many processes; they find no GPU and take the CPU
from fairseq_cli.train import cli_main
cli_main()
"""


def refuse(rank: int) -> None:
    try:
        int("sixteen")
    except ValueError:
        raise UserError(f"--arch is refused by process {rank}") from None


def test_an_error_of_a_process_that_fairseq_starts_is_a_sentence():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as raised:
        torch.multiprocessing.spawn(refuse, nprocs=1)
    assert message_for(raised.value) == "--arch is refused by process 0"
    assert message_for(torch.multiprocessing.ProcessRaisedException("\nValueError: no sentence", 0, 1)) is None


@pytest.mark.slow
def test_processes_that_fairseq_starts_know_the_plugin(home, accumulated):
    meeting = ["--distributed-init-method", (home / "meeting").as_uri()]
    _, *arguments = train_command("spawned", 3, *EXACT, *TWO, *meeting)
    result = run_python(SPAWN, *arguments, cwd=home)
    assert result.returncode == 0, result.stdout + result.stderr
    assert_same_training(history(home / "spawned"), accumulated[:3], tolerance=1e-5)


@pytest.fixture(scope="module")
def alone():
    """A process group of one, for which torch's DistributedDataParallel keeps its books all the same."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


SWITCHES = {option.name: st.booleans() for option in dataclasses.fields(EvolutionOptions) if option.type is bool}


@pytest.mark.usefixtures("alone")
@given(switches=st.fixed_dictionaries(SWITCHES), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_every_update_uses_every_parameter(switches, seed):
    """So that fairseq needs no --find-unused-parameters: without it, torch refuses the second update otherwise."""
    model = DistributedDataParallel(build(**TINY, **switches).train())
    for update in range(2):
        _, source, target = draw(seed + update)
        model(source, None, target)[0].sum().backward()
