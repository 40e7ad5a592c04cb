"""fairseq's console commands, run as a user does, train and translate with evolving attention."""

import os
import shutil
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

import fairseq
import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.utils import import_user_module

import ea_fairseq
from commands import OFF, PLUGIN, ROOT, run, run_python, run_well
from reversal import DATA, SENTENCES, train

CHECKPOINTS = "check points"


@pytest.fixture(scope="module")
def losses(home):
    """The losses of an undisturbed training, whose checkpoints the other tests use."""
    return train(home, CHECKPOINTS, 8, "--decoder-skip", "--cross-skip")


def test_training_learns_and_saves(home, losses):
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert {"checkpoint_best.pt", "checkpoint_last.pt"} <= {path.name for path in (home / CHECKPOINTS).iterdir()}


def test_an_interrupted_training_continues_as_if_undisturbed(home, losses):
    flags = ["--decoder-skip", "--cross-skip"]
    assert train(home, "halves", 4, *flags) + train(home, "halves", 8, *flags) == losses


@pytest.mark.usefixtures("losses")
def test_generate_translates_every_sentence(home):
    path = f"{CHECKPOINTS}/checkpoint_last.pt"
    flags = ["--beam", "3", "--print-alignment", "hard", "--cpu", "--max-len-b", "10"]
    flags += ["--required-batch-size-multiple", "1"]  # by default, 8, fairseq drops the rest of 6 modulo 8 sentences
    output = run_well("fairseq-generate", DATA, "--user-dir", PLUGIN, "--path", path, *flags, cwd=home)
    for kind in "SHDA":
        numbers = [int(line[2:].split("\t")[0]) for line in output.splitlines() if line.startswith(f"{kind}-")]
        assert sorted(numbers) == list(range(SENTENCES["test"]))


@pytest.mark.usefixtures("losses")
def test_interactive_translates_a_line(home):
    path = f"{CHECKPOINTS}/checkpoint_last.pt"
    command = ["fairseq-interactive", DATA, "--user-dir", PLUGIN, "--path", path, "--cpu", "--max-len-b", "10"]
    output = run_well(*command, cwd=home, stdin="a b c\n")
    assert "S-0\ta b c" in output
    hypothesis = next(line for line in output.splitlines() if line.startswith("H-0\t"))
    assert float(hypothesis.split("\t")[1]) < 0


def test_with_all_switches_off_it_trains_as_fairseqs_transformer(home):
    with ThreadPoolExecutor() as pool:
        plain = pool.submit(train, home, "plain", 5, "--no-save", arch="transformer")
        ours = pool.submit(train, home, "ours", 5, "--no-save", *OFF)
    assert len(plain.result()) == 5
    assert ours.result() == plain.result()


def test_a_bad_flag_value_is_refused(home):
    command = ["fairseq-train", DATA, "--user-dir", PLUGIN, "--arch", "ea_transformer", "--ea-alpha", "2"]
    result = run(*command, cwd=home)
    assert result.returncode == 2
    assert "--ea-alpha must be a number from 0 to 1, not '2'" in result.stderr.splitlines()[-1]


IMPORT_USER_DIR = """
from argparse import Namespace
from fairseq import models, utils
utils.import_user_module(Namespace(user_dir="ea_fairseq"))
print(models.ARCH_MODEL_REGISTRY["ea_transformer"].__name__)
"""


def test_after_an_installation_the_user_dir_is_found_from_anywhere(tmp_path):
    """fairseq looks for a user-dir beside itself, so the plugin is installed beside a copy of fairseq."""
    pytest.importorskip("setuptools", reason="building without it would need the network")
    site, source = tmp_path / "site", tmp_path / "source"
    (site / "fairseq").mkdir(parents=True)
    for entry in os.scandir(fairseq.__path__[0]):
        (site / "fairseq" / entry.name).symlink_to(entry.path)
    shutil.copytree(PLUGIN, source / "ea_fairseq")
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable.rpartition("/")[2], "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run_well(*pip, "--no-build-isolation", "--target", site, source, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = run_python(IMPORT_USER_DIR, cwd=elsewhere, PYTHONPATH=str(site))
    assert result.stdout == "EATransformerModel\n", result.stderr


def test_importing_the_plugin_before_fairseq_does_is_harmless(monkeypatch):
    monkeypatch.chdir(ROOT)
    import_user_module(Namespace(user_dir="ea_fairseq"))
    assert ARCH_MODEL_REGISTRY["ea_transformer"] is ea_fairseq.EATransformerModel
