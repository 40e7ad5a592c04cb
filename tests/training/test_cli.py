"""fairseq's console commands train and translate with evolving attention; once each, they run as a user runs them."""

import re
import subprocess
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.utils import import_user_module

import ea_fairseq
from commands import OFF, PLUGIN, ROOT, run_python, run_well
from corpora import warm_environment
from forked import run_forked_well
from needs import DEVICES
from reversal import DATA, SENTENCES, generate_command, losses_of, train, train_command

CHECKPOINTS = "check points"
SIDES = ("encoder", "decoder")
MIXED_PRECISION = [["--amp"], ["--fp16"], ["--memory-efficient-fp16"], ["--fp16", "--fp16-no-flatten-grads"]]


@pytest.fixture(scope="module")
def losses(home):
    """The losses of an undisturbed training, whose checkpoints the other tests use."""
    log = run_well(*train_command(CHECKPOINTS, 8, "--decoder-skip", "--cross-skip"), cwd=home)
    return list(losses_of(log).values())


def test_training_learns_and_saves(home, losses):
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert {"checkpoint_best.pt", "checkpoint_last.pt"} <= {path.name for path in (home / CHECKPOINTS).iterdir()}


def test_an_interrupted_training_continues_as_if_undisturbed(home, losses):
    flags = ["--decoder-skip", "--cross-skip"]
    assert train(home, "halves", 4, *flags) + train(home, "halves", 8, *flags) == losses


@pytest.mark.parametrize("start", [[], ["--finetune-from-model", f"{CHECKPOINTS}/checkpoint_last.pt"]])
def test_layers_are_kept_by_a_flag_as_by_an_option_in_python(home, losses, start, tmp_path):
    """fairseq reads the flag as a list, and then splits it as text."""
    skips = ["--decoder-skip", "--cross-skip"]
    flags = [*skips, "--encoder-layers-to-keep", "1", "--decoder-layers-to-keep", "0,1", *start]
    assert len(train(home, tmp_path, 1, *flags) + train(home, tmp_path, 2, *flags)) == 2  # the second resumes
    names = torch.load(tmp_path / "checkpoint_last.pt")["model"]
    layers = {side: {name.split(".")[2] for name in names if name.startswith(f"{side}.layers.")} for side in SIDES}
    assert layers == {"encoder": {"0"}, "decoder": {"0", "1"}}
    run_forked_well(*translation("--path", tmp_path / "checkpoint_last.pt"), cwd=home)


def translation(*flags, device="cpu") -> list:
    path = f"{CHECKPOINTS}/checkpoint_last.pt"
    return generate_command("--path", path, "--beam", "3", "--max-len-b", "10", *flags, device=device)


@pytest.fixture(scope="module")
def translations(home, losses):
    return run_well(*translation("--print-alignment", "hard"), cwd=home)


def test_a_command_warns_of_nothing_that_its_user_cannot_change(home, translations):
    assert "Warning" not in translations
    log = run_well(*train_command("warned", 1, "--no-save"), cwd=home)
    assert "Warning" not in log
    assert "UserWarning" in run_well(*train_command("warned", 1, "--no-save"), cwd=home, PYTHONWARNINGS="default")


def test_generate_translates_every_sentence(translations):
    for kind in "SHDA":
        numbers = [int(line[2:].split("\t")[0]) for line in translations.splitlines() if line.startswith(f"{kind}-")]
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
    plain = train(home, "plain", 5, "--no-save", arch="transformer")
    assert len(plain) == 5
    assert train(home, "ours", 5, "--no-save", *OFF) == plain


@pytest.mark.parametrize("flags", MIXED_PRECISION, ids=" ".join)
@pytest.mark.parametrize("device", DEVICES)
def test_mixed_precision_trains_as_float32_does(home, losses, device, flags):
    if device == "cpu" and flags == ["--fp16"]:
        pytest.skip("fairseq's --fp16 alone looks for a GPU")
    folder = "".join([device, *flags])
    mixed = train(home, folder, 8, "--decoder-skip", "--cross-skip", *flags, device=device)
    assert mixed[-1] < mixed[0]
    other_dropout = device == "cuda"
    assert mixed == pytest.approx(losses, abs=0.5 if other_dropout else 0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_generate_scores_in_float16_as_in_float32(home, translations, device):
    def scores(output):
        lines = [line.split("\t") for line in output.splitlines() if line.startswith("H-")]
        return {sentence: float(score) for sentence, score, _ in lines}

    in_float16 = scores(run_forked_well(*translation("--fp16", device=device), cwd=home))
    assert in_float16 != scores(translations)
    assert in_float16 == pytest.approx(scores(translations), abs=0.01)


def test_a_user_dir_of_ones_own_adds_a_mechanism(home, losses):
    """The example of docs/design.md."""
    (example,) = re.findall("```python\n(.*?)```", (ROOT / "docs/design.md").read_text(), re.DOTALL)
    (home / "my_attention").mkdir()
    (home / "my_attention/__init__.py").write_text(example)
    flags = ["--user-dir", "my_attention", "--decoder-skip", "--cross-skip"]
    own = train(home, "own", 3, *flags, arch="my_transformer")
    assert own != losses[:3] and own == pytest.approx(losses[:3], abs=0.1)
    command = ["bash", ROOT / "scripts/evaluate.sh", *flags[:2], "--cpu", DATA, "own"]
    evaluated = subprocess.run(command, cwd=home, env=warm_environment(), capture_output=True, text=True)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "my_transformer, seed 3, 3 updates, on test of my data (6 sentences)" in evaluated.stdout
    log = (home / "own/evaluation/logs/generate.log").read_text()
    assert "native code does not support evolving attention with GELU" in log


def test_the_user_dir_is_found_as_the_documentation_says(tmp_path):
    text = (ROOT / "docs/from-fairseq.md").read_text()
    (code,) = re.findall(r"--user-dir \"\$\(python -c '(.*?)'\)\"", text)
    found = run_python(code, cwd=tmp_path, PYTHONPATH=str(ROOT)).stdout
    assert found == f"{PLUGIN}\n"


def test_importing_the_plugin_before_fairseq_does_is_harmless(monkeypatch):
    monkeypatch.chdir(ROOT)
    import_user_module(Namespace(user_dir="ea_fairseq"))
    assert ARCH_MODEL_REGISTRY["ea_transformer"] is ea_fairseq.EATransformerModel
