"""A release takes the place of an older one, and of nothing else."""

import json
import shutil
import sys
from argparse import Namespace

import pytest
import torch
from safetensors.torch import load_file

from commands import ROOT
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.release import main, release, require_replaceable
from ea_fairseq.experiments.scoring.results import Results
from preparations import CODES, WHOLE

RELEASED = ROOT / "checkpoints" / "embedded-ea_transformer_lite"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data-bin"
    folder.mkdir()
    (folder / "preparation.json").write_text(json.dumps(WHOLE))
    (folder / "bpe.codes").write_text(CODES)
    for language in ("de", "en"):
        (folder / f"dict.{language}.txt").write_text("Hund 1\n")
    return folder


def replaceable(tmp_path, data, card_only: bool = False) -> None:
    require_replaceable(Namespace(run=tmp_path, out=tmp_path / "models", card_only=card_only), data)


@pytest.mark.parametrize("card_only", [False, True])
def test_a_folder_that_is_new_or_empty_is_taken(tmp_path, data, card_only):
    replaceable(tmp_path, data, card_only)
    (tmp_path / "models").mkdir()
    replaceable(tmp_path, data, card_only)


def test_an_older_release_is_replaced_but_by_no_card_alone(tmp_path, data):
    shutil.copytree(RELEASED, tmp_path / "models")
    replaceable(tmp_path, data)
    with pytest.raises(UserError, match="which would be lost"):
        replaceable(tmp_path, data, card_only=True)


def test_a_folder_that_an_older_version_released_is_converted_with_its_scores(tmp_path, monkeypatch, capsys):
    """In its own place, and to the same parameters as before, to the bit."""
    folder, place = tmp_path / "models", RELEASED / "model.safetensors"
    shutil.copytree(RELEASED, folder)
    before, results = read_checkpoint(place), Results.read(RELEASED)
    for name in ("model.safetensors", "config.json"):
        (folder / name).unlink()
    torch.save({**before, "optimizer_history": [{"num_updates": 9}]}, folder / "model.pt")
    about = tmp_path / "about.md"
    about.write_text("Words.\n")
    command = ["release", "--about", str(about), "--license", "cc-by-4.0", str(folder), str(folder)]
    monkeypatch.setattr(sys, "argv", [*command, "--reference", "test.en"])
    with pytest.raises(UserError, match=r"--reference: .* is released and has its scores"):
        main()
    monkeypatch.setattr(sys, "argv", command)
    main()
    after = read_checkpoint(folder / "model.safetensors")
    assert (folder / "model.safetensors").read_bytes() == place.read_bytes()
    assert (folder / "config.json").read_bytes() == (RELEASED / "config.json").read_bytes()
    assert after["model"].keys() == before["model"].keys() and not (folder / "model.pt").exists()
    found = Results.read(folder)
    assert (found.scores, found.checkpoints) == (results.scores, results.checkpoints)
    assert found.commands[:-1] == results.commands and "--license cc-by-4.0" in found.commands[-1]
    assert "license: cc-by-4.0\n" in (folder / "README.md").read_text()


@pytest.mark.parametrize("name", ["thesis.tex", "embedded-ea_transformer_lite", "dict.fr.txt"])
def test_a_folder_with_anything_else_is_refused(tmp_path, data, name):
    out = tmp_path / "models"
    shutil.copytree(RELEASED, out)
    (out / name).mkdir() if name == RELEASED.name else (out / name).touch()
    with pytest.raises(UserError, match=f"models has {name}, which would be lost"):
        replaceable(tmp_path, data)


def test_a_file_in_its_place_is_refused(tmp_path, data):
    (tmp_path / "models").touch()
    with pytest.raises(UserError, match="models is not a folder"):
        replaceable(tmp_path, data)


@pytest.mark.parametrize("there", [True, False], ids=["to an older release", "to nothing yet"])
def test_a_release_into_a_link_is_where_the_link_leads(tmp_path, data, there):
    disk, link = tmp_path / "another disk/models", tmp_path / "models"
    link.symlink_to(disk)
    if there:
        shutil.copytree(RELEASED, disk)
    (tmp_path / "about.md").write_text("Words.\n")
    args = Namespace(out=link, card_only=False, about=tmp_path / "about.md", license="other")
    state = {"model": {"weights": torch.ones(2)}, "cfg": {"model": {}, "task": {}}}
    release(args, Results.read(RELEASED), state, data)
    assert link.is_symlink() and load_file(disk / "model.safetensors").keys() == {"weights"}
    assert not list(disk.parent.glob("*.tmp"))
