"""Recipes are accepted by fairseq and the data scripts, and build the models of the papers' tables."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

from commands import ROOT
from corpora import environment, write_corpus
from tiny import dictionary

ALL = sorted((ROOT / "scripts/recipes").rglob("*.recipe"))
RECIPES = [path for path in ALL if path.parent.name != "quickstart"]
PARAMETERS = {
    "transformer_lite": 2_482_560,
    "ea_transformer_lite": 2_485_224,
    "transformer_base": 44_138_496,
    "ea_transformer_base": 44_149_008,
}
EVOLUTION = {"ea_transformer_lite": (0.1, 0.1), "ea_transformer_base": (0.5, 0.1)}
PAPERS = {"adam_betas": "(0.9, 0.98)", "lr_scheduler": "inverse_sqrt", "label_smoothing": 0.1, "optimizer": "adam"}
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def section(recipe: Path, name: str) -> list[str]:
    """The lines of a section, without comments."""
    lines = recipe.read_text().split(f"[{name}]\n")[1].split("\n[")[0].splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def parse(recipe: Path):
    """The flags as fairseq's own parser reads them."""
    words = [word for line in section(recipe, "train") for word in line.split(" ", 1)]
    return options.parse_args_and_arch(options.get_training_parser(), ["data", *words])


def test_every_data_set_has_every_model():
    names = {f"{path.parent.name}/{path.stem}" for path in RECIPES}
    small = {model for model in PARAMETERS if model.endswith("lite")}
    data_sets = "iwslt14-deen", "wmt14-ende", "wmt14-enfr", "de-en-mix"
    expected = {f"{data}/{model}" for data in data_sets for model in PARAMETERS}
    assert names == expected | {f"multi30k-{pair}/{model}" for pair in ("deen", "ende") for model in small}


@each_recipe
def test_the_flags_are_the_papers_and_build_their_model(recipe):
    args = parse(recipe)
    assert {name: getattr(args, name) for name in PAPERS} == PAPERS
    small_data = recipe.parent.name.startswith("multi30k")
    assert args.warmup_updates == (800 if small_data else 4000)
    assert args.dropout in {0.1, 0.2, 0.3} and args.lr[0] in {1e-4, 5e-4, 1e-3}
    assert args.eval_bleu and args.eval_tokenized_bleu and args.seed == 1
    if recipe.stem in EVOLUTION:
        assert (args.ea_alpha, args.ea_beta) == EVOLUTION[recipe.stem]
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, Task())
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    counted = sum(size for name, size in sizes.items() if "embed_tokens" not in name and "output_proj" not in name)
    assert counted == PARAMETERS[recipe.stem]


class Task:
    source_dictionary = target_dictionary = dictionary()


@pytest.mark.parametrize(
    "recipe", [path for path in ALL if path.stem in EVOLUTION], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_model_and_its_baseline_differ_in_evolving_attention_only(recipe):
    baseline = recipe.with_stem(recipe.stem.removeprefix("ea_"))
    for name in ("data", "train", "evaluate"):
        pair = [section(path, name) for path in (recipe, baseline)]
        ours, plain = ([line for line in lines if not re.match("--(arch|ea-)", line)] for lines in pair)
        assert ours == plain
    assert parse(recipe).arch.removeprefix("ea_") in (parse(baseline).arch, parse(baseline).arch + "_base")


@pytest.mark.parametrize("folder", sorted({path.parent for path in RECIPES}), ids=lambda path: path.name)
def test_the_data_script_knows_the_options_and_its_dictionaries_fit_the_embeddings(folder, tmp_path):
    (command,) = {tuple(section(path, "data")) for path in folder.glob("*.recipe")}
    *script, out = command[0].split()
    assert out == f"data/{folder.name}"
    if script[-1] == f"{out}-text":  # a corpus of one's own
        script[-1] = str(write_corpus(tmp_path / "corpus"))
    plan = subprocess.run(
        [*script, "--dry-run", tmp_path / "out"], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    assert plan.returncode == 0 and "data-bin" in plan.stdout, plan.stderr
    usage = subprocess.run([*script, "--help"], cwd=ROOT, env=environment(), capture_output=True, text=True).stdout
    joined = "--joined-dictionary" in script or "--share-all-embeddings needs (default)" in usage
    for recipe in folder.glob("*.recipe"):
        args = parse(recipe)
        assert args.share_all_embeddings == joined
        assert args.share_decoder_input_output_embed or joined


@each_recipe
def test_the_evaluation_averages_what_the_training_keeps(recipe):
    found = dict(line.split(" ", 1) if " " in line else (line, "") for line in section(recipe, "evaluate"))
    args = parse(recipe)
    kept = args.keep_last_epochs if not args.no_epoch_checkpoints else args.keep_interval_updates
    assert 1 < int(found["--average"]) <= kept
    assert int(found["--beam"]) >= 4
    assert ("--compound-split" in found) == (recipe.parent.name == "wmt14-ende")
