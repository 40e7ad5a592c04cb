"""Checkpoints load safely and come back as they were saved; a broken fairseq is refused."""

import argparse
import os
import pickle
import random
import textwrap

import numpy as np
import pytest
import torch

from checkpoints import save_dictionaries, save_loud
from commands import PLUGIN, ROOT, run_python
from ea_fairseq.fairseq_patches.startup import REMEDY
from laws import draw_padded, scores
from tiny import COMBINATIONS

LOAD_AND_RUN = """
import sys
import torch
from argparse import Namespace
from fairseq import checkpoint_utils, utils

plugin, data, inputs, outputs, *checkpoints = sys.argv[1:]
utils.import_user_module(Namespace(user_dir=plugin))
source, target = torch.load(inputs)
results = []
for checkpoint in checkpoints:
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([checkpoint], {"data": data})
    results.append([model.train(training)(source, None, target)[0].detach() for training in (False, True)])
torch.save(results, outputs)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data folder with two dictionaries."""
    return save_dictionaries(tmp_path_factory.mktemp("two words"))


def save(folder, name: str, *flags):
    """(model, checkpoint) as fairseq's trainer writes it, of a model whose convolutions are loud."""
    checkpoint = folder / name
    return save_loud(folder, checkpoint, *flags), checkpoint


@pytest.fixture(scope="module")
def saved(folder):
    return save(folder, "checkpoint.pt", "--ea-beta", "0.5", "--decoder-skip", "--cross-skip")


def draw_flags(draw: random.Random) -> list[str]:
    """The flags of one model: any weights, any switches and any kernel."""
    flags = [f"--ea-{weight}={draw.uniform(0, 1)}" for weight in ("alpha", "beta")]
    for option, value in draw.choice(COMBINATIONS).items():
        flag = "--" + option.replace("_", "-")
        flags += [flag] if value is True else [f"{flag}={value}"] if value else []
    return flags


@pytest.fixture
def without_allow_list():
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    yield
    torch.serialization.add_safe_globals(allowed)


def test_a_checkpoint_loads_under_torchs_default(saved):
    model, checkpoint = saved
    state = torch.load(checkpoint)
    assert isinstance(state["cfg"]["model"], argparse.Namespace)
    assert state["model"].keys() == model.state_dict().keys()


def test_it_is_the_allow_list_that_lets_it_load(saved, without_allow_list):
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):
        torch.load(saved[1])


def test_the_counts_of_validation_bleu_load_and_what_arrays_could_hide_does_not(tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    torch.save({"counts": np.array([160, 29]), "sums": np.array([1.5])}, checkpoint)
    state = torch.load(checkpoint)
    assert (state["counts"].tolist(), state["sums"].tolist()) == ([160, 29], [1.5])
    torch.save(np.array([os.getpid], dtype=object), checkpoint)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(checkpoint)


@pytest.mark.parametrize(
    "number", [np.float64(86.6), np.float32(0.5), np.int64(-3)], ids=lambda number: str(number.dtype)
)
@pytest.mark.parametrize("module", ["numpy._core", "numpy.core"], ids=["of NumPy 2", "of NumPy 1"])
def test_a_number_of_numpy_that_a_metric_gave_loads(tmp_path, number, module):
    checkpoint = tmp_path / "checkpoint.pt"
    torch.save({"val_loss": number}, checkpoint, _use_new_zipfile_serialization=False)
    checkpoint.write_bytes(checkpoint.read_bytes().replace(b"numpy._core", module.encode()))
    assert torch.load(checkpoint) == {"val_loss": number}


@pytest.mark.slow
def test_a_fresh_process_computes_the_same_in_evaluation_and_in_training_without_dropout(saved, folder, tmp_path):
    draw = random.Random(1)
    models, checkpoints = zip(saved, *(save(folder, f"{i}.pt", *draw_flags(draw)) for i in range(10)), strict=True)
    _, source, target = draw_padded(models[0], seed=1)
    torch.save((source, target), tmp_path / "inputs.pt")
    files = PLUGIN, folder, tmp_path / "inputs.pt", tmp_path / "outputs.pt", *checkpoints
    result = run_python(LOAD_AND_RUN, *files, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    outputs = torch.load(tmp_path / "outputs.pt")
    for model, (evaluation, training) in zip(models, outputs, strict=True):
        expected = scores(model.eval(), source, target)
        torch.testing.assert_close(evaluation, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(training, expected, atol=1e-5, rtol=0)


FAKE_FAIRSEQ = {
    "twin weights": {
        "__init__.py": "",
        "models/__init__.py": "",
        "models/transformer.py": """
            from types import SimpleNamespace
            class TransformerConfig:
                encoder = SimpleNamespace()
        """,
        "modules/__init__.py": "",
        "modules/transformer_layer.py": """
            class TransformerEncoderLayerBase:
                def __init__(self, config):
                    self.in_proj_weight = None
        """,
    },
    "too old for this Python": {"__init__.py": "raise ValueError('mutable default for field common')"},
    "incomplete": {"__init__.py": "import a_module_that_does_not_exist"},
}


@pytest.mark.parametrize("sources", FAKE_FAIRSEQ.values(), ids=FAKE_FAIRSEQ)
def test_a_broken_fairseq_is_refused_with_what_to_install(sources, tmp_path):
    for name, source in sources.items():
        path = tmp_path / "fairseq" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
    result = run_python(
        "from ea_fairseq import UserError, FAMILIES",
        cwd=tmp_path,
        PYTHONPATH=os.pathsep.join(map(str, [tmp_path, ROOT])),
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith(f"ImportError: {REMEDY}")
