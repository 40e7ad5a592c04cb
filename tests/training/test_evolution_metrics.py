"""TensorBoard and Weights & Biases show the numbers of each mechanism as the checkpoints have them."""

import json
import re
import struct
import time
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.logging import metrics as fairseq_metrics
from tensorboardX.proto.event_pb2 import Event

from ea_fairseq.attention.map_convolution import norm
from ea_fairseq.models.mechanism_model import log_metrics
from forked import run_forked_well
from mechanisms import KINDS, build_family
from reversal import losses_of, train_command

BOARD = "my board"
EVERY = ["--save-interval-updates", "2", "--log-interval", "2"]  # an epoch has 7 updates
MODEL = ["--ea-alpha", "0.3", "--ea-beta", "0.2", "--decoder-skip", "--no-cross-conv"]
WEIGHTS = {
    "ea_alpha/encoder": 0.3,
    "ea_alpha/decoder": 0.3,
    "ea_alpha/cross": 0.0,
    "ea_beta/encoder": 0.2,
    "ea_beta/decoder": 0.2,
    "ea_beta/cross": 0.0,
}
FAKE_WANDB = """
import json
class config:
    update = staticmethod(lambda settings: None)
def init(**settings):
    pass
def log(values, step):
    with open("wandb.json", "a") as file:
        print(json.dumps([step, values]), file=file)
"""
# fairseq looks for wandb when it is imported, which here it is already.
WITH_WANDB = """
import sys
sys.path.insert(0, ".")
import wandb
from fairseq.logging import progress_bar
from fairseq_cli.train import cli_main
progress_bar.wandb = wandb
cli_main()
"""
Metrics = dict[int, dict[str, float]]  # by update and name


def ours(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name.startswith("ea_")}


def shown_by_tensorboard(folder: Path) -> Metrics:
    """All that event files hold: records of a length (8 bytes), its checksum (4), the event and its checksum (4)."""
    shown: Metrics = {}
    for path in folder.glob("events.*"):
        records = path.read_bytes()
        while records:
            (size,) = struct.unpack("<Q", records[:8])
            event = Event.FromString(records[12 : 12 + size])
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    shown.setdefault(event.step, {})[value.tag] = value.simple_value
            records = records[16 + size :]
    return shown


def expected(folder: Path, update: int) -> dict[str, float]:
    (checkpoint,) = folder.glob(f"checkpoint_*_{update}.pt")
    norms = {
        f"ea_conv_norm/{name.removesuffix('.conv.weight')}": frobenius(kernels)
        for name, kernels in torch.load(checkpoint)["model"].items()
        if name.endswith(".conv.weight")
    }
    assert len(norms) == 4
    return norms | WEIGHTS


@pytest.fixture(scope="module")
def log(home) -> str:
    """What a training logs that saves and shows every second of its eight updates, and was resumed after the fourth."""
    flags = [*EVERY, *MODEL, "--tensorboard-logdir", BOARD]
    first = run_forked_well(*train_command("shown", 4, *flags), cwd=home)
    time.sleep(1)  # tensorboardX names its files by the second
    return first + run_forked_well(*train_command("shown", 8, *flags), cwd=home)


@pytest.mark.usefixtures("log")
def test_tensorboard_shows_the_model_after_each_update_also_of_a_resumed_training(home):
    shown = shown_by_tensorboard(home / BOARD / "train_inner")
    assert sorted(shown) == [2, 4, 6, 8]
    for update, metrics in shown.items():
        assert "loss" in metrics
        assert ours(metrics) == pytest.approx(expected(home / "shown", update), rel=1e-6)
    assert ours(shown[2])["ea_conv_norm/encoder.layers.0.self_attn"] != pytest.approx(
        ours(shown[8])["ea_conv_norm/encoder.layers.0.self_attn"], rel=1e-4
    )


@pytest.mark.usefixtures("log")
def test_tensorboard_shows_it_at_the_end_of_an_epoch_and_not_beside_validations(home):
    by_epoch = shown_by_tensorboard(home / BOARD / "train")
    assert ours(by_epoch[4]) == pytest.approx(expected(home / "shown", 4), rel=1e-6)
    valid = shown_by_tensorboard(home / BOARD / "valid")
    assert valid and not any(map(ours, valid.values()))


def test_wandb_shows_the_same(home, log):
    (home / "wandb.py").write_text(FAKE_WANDB)
    command = train_command("on wandb", 4, *EVERY, *MODEL, "--wandb-project", "reversal")
    run_forked_well(*command, cwd=home, code=WITH_WANDB)
    shown: Metrics = {}
    for line in (home / "wandb.json").read_text().splitlines():
        update, metrics = json.loads(line)
        shown.setdefault(update, {}).update(metrics)
    board = shown_by_tensorboard(home / BOARD / "train_inner")
    for update in (2, 4):
        inner = {name.removeprefix("train_inner/"): value for name, value in shown[update].items() if "_inner/" in name}
        assert ours(inner) == pytest.approx(ours(board[update]), rel=1e-6)


def test_without_either_the_training_is_the_same_and_the_log_short(home, log):
    plain = run_forked_well(*train_command("not shown", 8, *EVERY, *MODEL), cwd=home)
    assert losses_of(plain) == losses_of(log)
    assert '"ea_' in log and '"ea_' not in plain


def test_the_norm_of_half_precision_is_finite():
    kernels = torch.full((8, 8, 3, 3), 6e4, dtype=torch.half)
    assert norm(kernels) == pytest.approx(24 * 6e4, rel=1e-2)


def frobenius(kernels: torch.Tensor) -> float:
    return kernels.double().square().sum().sqrt().item()


MEASURED = {  # by the family: which parameters of an attention are shown, as what, and how they are measured
    "ea_transformer": [(r"conv\.weight", "ea_conv_norm/{}", frobenius)],
    "pa_transformer": [(f"convs.{i}.weight", f"pa_conv_norm/{{}}.{i}", frobenius) for i in range(2)],
    "mta_transformer": [(rf"{conv}\.weight", f"mta_{conv}_norm/{{}}", frobenius) for conv in ("conv", "second_conv")],
    "value_residual": [("lambdas", f"value_lambda_{i + 1}/{{}}", lambda pair, i=i: pair[i].item()) for i in range(2)],
}


@pytest.mark.parametrize("family", MEASURED)
def test_each_mechanism_shows_the_numbers_that_its_metrics_are_named_after(family):
    model = build_family(family, encoder_layers=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    with fairseq_metrics.aggregate(new_root=True) as shown:
        log_metrics(model, Namespace(tensorboard_logdir="board"))
    expected = {f"ea_{name}/{kind}": weight for name, weight in (("alpha", 0.4), ("beta", 0.3)) for kind in KINDS}
    expected = expected if family == "ea_transformer" else {}
    for name, parameter in model.state_dict().items():
        for pattern, metric, measure in MEASURED[family]:
            found = re.fullmatch(rf"(.*_attn)\.{pattern}", name)
            expected |= {metric.format(found[1]): measure(parameter)} if found else {}
    assert len(expected) > 3
    assert shown.get_smoothed_values() == pytest.approx(expected, rel=1e-6)
