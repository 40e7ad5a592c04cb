"""From recipes to a paper's table, figures and attention maps, by the commands that a user types."""

import json
import os
import subprocess
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from commands import ROOT, SIZES
from corpora import LOWERCASED, prepared, warm_environment, write_corpus
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.experiments.runs.release import release
from ea_fairseq.experiments.scoring.results import Results

MODELS = {"transformer_lite": [], "ea_transformer_lite": ["--ea-alpha 0.3"]}
SEEDS = (1, 2)
FLAGS = [" ".join(pair) for pair in zip(SIZES[::2], SIZES[1::2], strict=True)] + [
    "--optimizer adam",
    "--lr 1e-2",
    "--max-tokens 200",
    "--required-batch-size-multiple 1",
    "--max-epoch 2",
    "--seed 1",
    "--log-interval 1",
    "--num-workers 0",
    "--eval-bleu",
    '--eval-bleu-args {"beam": 1, "max_len_b": 10}',
    "--eval-bleu-remove-bpe",
    "--eval-tokenized-bleu",
]


def run(command: list, cwd: Path, text: str | None = None) -> str:
    variables = warm_environment() | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=variables, input=text, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def script(name: str) -> list:
    path = ROOT / "scripts" / name
    return [{".sh": "bash", ".py": "python"}[path.suffix], path]


def write_recipe(home: Path, model: str) -> Path:
    recipe = home / f"{model}.recipe"
    lines = ["[train]", f"--arch {model}", *MODELS[model], *FLAGS, "[evaluate]", "--average 2", "--beam 2"]
    recipe.write_text("".join(f"{line}\n" for line in lines))
    return recipe


def train_and_evaluate(home: Path, model: str, seed: int) -> Path:
    data, out = home / "prepared" / "data-bin", home / "runs" / model / f"seed-{seed}"
    run([*script("train.sh"), "--data", data, "--out", out, write_recipe(home, model), "--seed", seed], home)
    run([*script("evaluate.sh"), data, out], home)
    return out


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A user's folder with two seeds of two models, trained and evaluated."""
    home = tmp_path_factory.mktemp("a home")
    prepared(*LOWERCASED, write_corpus(home / "corpus"), home / "prepared")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = [pool.submit(partial(train_and_evaluate, home, model, seed)) for model in MODELS for seed in SEEDS]
        for run_of in runs:
            run_of.result()
    return home


def test_results_say_how_they_were_made(home):
    for model in MODELS:
        for seed in SEEDS:
            results = Results.read(home / "runs" / model / f"seed-{seed}" / "evaluation")
            assert (results.model, results.seed, results.epochs) == (model, seed, 2)
            assert results.checkpoints == ["checkpoint1.pt", "checkpoint2.pt"]
            assert results.search["beam"] == 2
            assert set(results.scores) == {"tokenized BLEU", "BLEU", "chrF", "TER"}
            assert f"--seed {seed}" in results.training_command
            assert "--user-dir ea_fairseq " in results.training_command
            assert len(results.raw()[0]) == len(results.raw()[1]) == 5
            assert results.train_curve[-1].updates == results.valid_curve[-1].updates == results.updates
            assert results.valid_curve[-1].bleu is not None
            assert results.settings.get("ea_alpha") == (0.3 if model.startswith("ea_") else None)


def test_report_compares_them(home):
    printed = run([*script("report.py"), "--out", "report", "runs"], home)
    plain, evolving = (line for line in printed.splitlines() if "transformer_lite |" in line)
    assert plain.startswith("| transformer_lite |") and evolving.startswith("| ea_transformer_lite |")
    assert evolving.count("±") == 2 and evolving.count("/") == 1
    figures = " ".join(path.name for path in (home / "report" / "figures").iterdir())
    for name in ("training-loss.svg", "validation-loss.svg", "validation-bleu.png"):
        assert name in figures
    page = (home / "report" / "report.html").read_text()
    assert page.count("<summary>") == 4


@pytest.mark.slow
def test_attention_maps_show_them(home):
    show = [*script("attention_maps.py"), "runs/ea_transformer_lite/seed-1"]
    sentence = ["--source", "Der Hund läuft.", "--compare", "runs/transformer_lite/seed-1"]
    run([*show, *sentence, "--heads", "1", "--attention", "cross", "--out", "maps"], home)
    assert {path.name for path in (home / "maps").iterdir()} == {"cross-head-1.png", "cross-head-1.svg"}
    run([*show, "--statistics", "--out", "statistics"], home)
    statistics = json.loads((home / "statistics" / "statistics.json").read_text())
    assert statistics["pairs"] == 5


@pytest.mark.slow
def test_a_release_translates_and_has_the_scores_of_its_card(home, tmp_path):
    (home / "about.md").write_text("## License\n\nNone.\n")
    folders = [home / "runs/ea_transformer_lite/seed-1", home / "released" / "small"]
    command = [*map(str, script("release.py")), "--about", home / "about.md", *folders]
    refused = subprocess.run(command, cwd=tmp_path, env=warm_environment(), capture_output=True, text=True)
    assert refused.returncode and "name the folder of its data with --data" in refused.stderr
    assert not folders[1].exists()
    run([*command, "--data", home / "prepared" / "data-bin"], tmp_path)
    folder = home / "released" / "small"
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        checksum, name = line.split("  ")
        assert sha256((folder / name).read_bytes()).hexdigest() == checksum
    parameters = read_checkpoint(folder / "model.safetensors")["model"].values()
    assert {tensor.dtype for tensor in parameters if tensor.is_floating_point()} == {torch.float16}
    results, trained = (Results.read(place) for place in (folder, home / "runs/ea_transformer_lite/seed-1/evaluation"))
    assert (results.checkpoints, results.updates) == (trained.checkpoints, trained.updates)
    text = (folder / "README.md").read_text()
    assert "## License" in text and "translate.sh" in text
    assert all(f"| {name} | {score.score:.2f} |" in text for name, score in results.scores.items())
    assert results.commands[:-1] == trained.commands and results.commands[-1].startswith("ea-fairseq release ")
    source = (home / "corpus" / "test.de").read_text(encoding="utf-8")
    translated = run([*script("translate.sh"), "--cpu", "--beam", "2", folder], home, source)
    evaluated = Results.read(home / "runs/ea_transformer_lite/seed-1/released")
    assert translated.splitlines() == evaluated.raw()[0]


def test_a_card_alone_says_that_the_model_is_not_there(home):
    run_folder, card = home / "runs/transformer_lite/seed-1", home / "released" / "card"
    about = home / "about of a card.md"
    about.write_text("## License\n\nNone.\n")
    options = Namespace(out=card, about=about, license="other", card_only=True)
    state = read_checkpoint(run_folder / "evaluation" / "model.pt")
    release(options, Results.read(run_folder / "evaluation"), state, home / "prepared" / "data-bin")
    assert {path.name for path in card.iterdir()} == {"README.md", "SHA256SUMS"}
    text = (card / "README.md").read_text()
    assert "not published" in text and "translate.sh" not in text
