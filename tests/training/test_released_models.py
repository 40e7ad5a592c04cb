"""A released model in fairseq's commands, where it replaces the checkpoint that it was made from; and its two files."""

import json
import random
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from checkpoints import save_loud
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.checkpoint.released import write_released
from forked import run_forked, run_forked_well
from reversal import DATA, generate_command, losses_of, train_command

FLAGS = "--share-decoder-input-output-embed", "--ea-alpha", "0.3", "--decoder-skip", "--relative-positions", "shaw"
TIED = "decoder.output_projection.weight"
MODELS = {"checkpoint": "whole.pt", "released": "released/model.safetensors"}


def release(checkpoint: Path, folder: Path) -> Path:
    folder.mkdir()
    write_released(read_checkpoint(checkpoint), folder / "model.safetensors", ("src", "tgt"))
    return folder


@pytest.fixture(scope="module")
def home(home):
    """A user's folder with data, a checkpoint, and the same model released."""
    save_loud(home / DATA, home / MODELS["checkpoint"], *FLAGS)
    release(home / MODELS["checkpoint"], home / "released")
    return home


def generated(home: Path, path: str) -> list[str]:
    output = run_forked_well(*generate_command("--path", path, "--beam", 2, "--max-len-b", 9), cwd=home)
    return [line for line in output.splitlines() if line.startswith(("H-", "P-"))]


def test_fairseq_generate_writes_the_same_hypotheses_and_scores(home):
    checkpoint, released = (generated(home, path) for path in MODELS.values())
    assert checkpoint == released and checkpoint


def test_an_ensemble_takes_both(home):
    """An ensemble of a model with itself translates as the model does."""
    both = generated(home, ":".join(MODELS.values()))
    alone = generated(home, MODELS["released"])
    assert [line.split("\t")[2] for line in both if line[0] == "H"] == [
        line.split("\t")[2] for line in alone if line[0] == "H"
    ]


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--restore-file"])
def test_a_training_starts_from_it_as_from_the_checkpoint(home, flag, tmp_path):
    start = [*FLAGS, "--dropout", "0", "--no-save", "--ea-beta", "0.5"]
    resets = [f"--reset-{part}" for part in ("optimizer", "dataloader", "meters", "lr-scheduler")]
    losses = [
        losses_of(
            run_forked_well(
                *train_command(str(tmp_path), 1, *start, flag, path, *(resets if flag == "--restore-file" else [])),
                cwd=home,
            )
        )
        for path in MODELS.values()
    ]
    assert losses[0] == losses[1] and losses[0].keys() == {1}


@pytest.mark.parametrize("flags", [["--checkpoint-suffix", "_part"], ["--checkpoint-shard-count", "2"]])
def test_flags_for_checkpoints_in_parts_are_refused(home, flags):
    refused = run_forked(*generate_command("--path", MODELS["released"], *flags), cwd=home)
    assert refused.returncode == 1 and "a released model is one file: leave them out" in refused.stderr.splitlines()[-1]


def test_tied_parameters_are_stored_once_and_share_their_elements_again(home):
    state = read_checkpoint(home / MODELS["checkpoint"])
    stored = load_file(home / MODELS["released"])
    found = read_checkpoint(home / MODELS["released"])["model"]
    assert TIED in state["model"] and TIED not in stored
    assert found[TIED].data_ptr() == found["decoder.embed_tokens.weight"].data_ptr()
    assert found.keys() == state["model"].keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in state["model"].items())


def test_the_same_model_has_the_same_files_whatever_the_order_of_its_parameters(home, tmp_path):
    state = read_checkpoint(home / MODELS["checkpoint"])
    names = [name for name in state["model"] if name != TIED]
    random.Random(1).shuffle(names)
    shuffled = {name: state["model"][name] for name in [*names, TIED]}
    write_released({**state, "model": shuffled}, tmp_path / "model.safetensors", ("src", "tgt"))
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / name).read_bytes() == (home / "released" / name).read_bytes()
        assert (tmp_path / name).stat().st_mode & stat.S_IRGRP


def test_options_are_those_of_the_model_and_its_languages(home):
    config = json.loads((home / "released/config.json").read_text())
    options = config["model"]
    assert (options["ea_alpha"], options["ea_beta"], options["decoder_skip"]) == (0.3, 0.5, True)
    assert (config["task"]["source_lang"], config["task"]["target_lang"]) == ("src", "tgt")
    known = vars(read_checkpoint(home / MODELS["checkpoint"])["cfg"]["model"])
    assert all(options[name] == known[name] for name in options)
    assert not {"data", "save_dir", "optimizer", "lr", "max_tokens", "user_dir", "seed"} & {*options, *config["task"]}
