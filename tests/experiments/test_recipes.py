"""Recipes are accepted by fairseq and the data scripts, and build the models of the papers' tables."""

import subprocess
from copy import copy

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from commands import ROOT
from corpora import environment, write_corpus
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.experiments.runs.recipe import models
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.models.state_dict import MECHANISM
from recipes import assert_differs_in_its_model_alone, parse, recipe_texts, section
from tiny import dictionary

PARAMETERS = {
    "transformer_lite": 2_482_560,
    "ea_transformer_lite": 2_485_224,
    "transformer_base": 44_138_496,
    "ea_transformer_base": 44_149_008,
    "modern_transformer_lite": 2_494_880,
    "ea_modern_transformer_lite": 2_497_544,
    "modern_transformer_base": 44_108_032,
    "ea_modern_transformer_base": 44_118_544,
    "conv_transformer_lite": 2_135_520,
    "conv_transformer_base": 40_594_944,
    "pa_conv_transformer_lite": 2_135_520 + 5 * 148,
    "pa_conv_transformer_base": 40_594_944 + 5 * 584,
    "lite_transformer_lite": 1_791_344,
    "lite_transformer_base": 37_059_424,
}
# Connections add, for layers l, channels C and streams n: 2 C a sub-layer, and at the end; (n + 2)(C + n) + 2;
# (2 + n) n (n C + 1) + 3, and n (n C + 1) + 1; l + 1; 4 m (C + 4 m + 1) with m = l + 1 and, after the last layer,
# m (4 C + 4 m + 1).
for size, of_connections in {
    "lite": (10_240, 9_600, 29_580, 466_740, 54, 38_006),
    "base": (32_768, 30_720, 92_940, 1_491_764, 54, 114_038),
}.items():
    for name, added in zip(
        ("attention_residuals", "delta_residuals", "hyper_connections", "mhc", "denseformer", "mudd"),
        of_connections,
        strict=True,
    ):
        PARAMETERS[f"{name}_{size}"] = PARAMETERS[f"modern_transformer_{size}"] + added
SIZES = ("lite", "base")  # of models for translation
MODEL_FILES = [model for model in models() if model.endswith(SIZES)]
SMALL = [model for model in MODEL_FILES if model.endswith("lite")]
MODELS = dict.fromkeys(("iwslt14-deen", "iwslt14-58k", "wmt14-ende", "wmt14-enfr", "de-en-mix"), MODEL_FILES)
SMALL_DATA = ("iwslt14-58k-short", "multi30k-deen", "multi30k-deen-short", "multi30k-ende", "multi30k-ende-short")
MODELS |= dict.fromkeys(SMALL_DATA, SMALL)
MODELS["multi30k-deen-base"] = [model for model in MODEL_FILES if model.endswith("base")]
QUICK_START = {"quickstart": SMALL}
EVOLUTION = {"ea_transformer_lite": (0.1, 0.1), "ea_transformer_base": (0.5, 0.1)}
EVOLUTION |= {"ea_modern_transformer_lite": (0.1, 0.1), "ea_modern_transformer_base": (0.5, 0.1)}
PAPERS = {"adam_betas": "(0.9, 0.98)", "lr_scheduler": "inverse_sqrt", "label_smoothing": 0.1, "optimizer": "adam"}
LITTLE_TEXT = PAPERS | {"lr_scheduler": "polynomial_decay", "optimizer": "adamw", "adam_betas": [0.9, 0.98]}
WARMUP = {"iwslt14-58k": 2000, "iwslt14-58k-short": 1000, "multi30k-deen": 1000, "multi30k-ende": 1000}  # our recipes'
WARMUP["multi30k-deen-base"] = 500
WITHOUT_BLEU = ("iwslt14-58k", "iwslt14-58k-short", "multi30k-deen-base")  # in validation


def plain_of(model: str) -> str:
    """The recipe of the plain model of the same size, which is the last part of a model's name."""
    return f"transformer_{model.rpartition('_')[2]}"


def names(models: dict[str, list[str]]) -> list[str]:
    return [f"{data}/{model}" for data in models for model in models[data]]


each_recipe = pytest.mark.parametrize("recipe", names(MODELS))


def test_every_data_set_has_every_model():
    found = {name for name in recipe_texts() if name.endswith(SIZES)}
    assert found == set(names(MODELS | QUICK_START))


@each_recipe
def test_the_flags_are_the_papers_but_where_text_is_little(recipe):
    args, (data, _, model) = parse(recipe), recipe.partition("/")
    expected = LITTLE_TEXT if data in WARMUP else PAPERS
    assert {name: getattr(args, name) for name in expected} == expected
    assert args.warmup_updates == WARMUP.get(data, 800 if data.endswith("-short") else 4000)
    assert args.dropout in {0.1, 0.2, 0.3} and args.lr[0] in {1e-4, 5e-4, 7e-4, 1e-3}
    assert (args.eval_bleu and args.eval_tokenized_bleu) != (data in WITHOUT_BLEU) and args.seed == 1
    if model in EVOLUTION:
        assert (args.ea_alpha, args.ea_beta) == EVOLUTION[model]


@pytest.mark.parametrize(  # a data set's part of them seldom changes a model's size
    "recipe",
    [pytest.param(name, marks=[] if name.startswith("iwslt14-deen/") else pytest.mark.slow) for name in names(MODELS)],
)
def test_the_flags_build_a_model_of_the_papers_size(recipe):
    args, model_name = copy(parse(recipe)), recipe.partition("/")[2]
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, Task())
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    counted = sum(size for name, size in sizes.items() if "embed_tokens" not in name and "output_proj" not in name)
    added = sum(size for name, size in sizes.items() if MECHANISM.search(name))
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    left_out = sum((each.embed_dim + 1) * each.embed_dim * (3 - len(each.projected)) for each in attentions)
    assert counted == PARAMETERS.get(model_name, PARAMETERS[plain_of(model_name)] + added - left_out)


class Task:
    source_dictionary = target_dictionary = dictionary()


@pytest.mark.parametrize("recipe", names(MODELS | QUICK_START))
def test_a_model_differs_from_the_plain_one_of_its_size_in_nothing_but_what_makes_it(recipe):
    assert_differs_in_its_model_alone(recipe, plain_of(recipe.partition("/")[2]), TermOptions, LayerOptions)


@pytest.mark.parametrize("model", EVOLUTION)
def test_the_plain_model_of_a_size_has_the_architecture_less_evolving_attention(model):
    arch, plain = (parse(f"iwslt14-deen/{name}").arch for name in (model, model.removeprefix("ea_")))
    assert arch.removeprefix("ea_") in (plain, f"{plain}_base")


@pytest.mark.parametrize("data", MODELS)
def test_the_data_script_knows_the_options_and_its_dictionaries_fit_the_embeddings(data, tmp_path):
    (command,) = {tuple(section(f"{data}/{model}", "data")) for model in MODELS[data]}
    *script, out = command[0].split()
    assert out == f"data/{data.removesuffix('-short').removesuffix('-base')}"
    if script[-1] == f"{out}-text":  # a corpus of one's own
        script[-1] = str(write_corpus(tmp_path / "corpus"))
    plan = subprocess.run(
        [*script, "--dry-run", tmp_path / "out"], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    assert plan.returncode == 0 and "data-bin" in plan.stdout, plan.stderr
    wide = environment() | {"COLUMNS": "200"}
    usage = subprocess.run([*script, "--help"], cwd=ROOT, env=wide, capture_output=True, text=True).stdout
    joined = "--joined-dictionary" in script or "--share-all-embeddings needs (default)" in usage
    for model in MODELS[data]:
        args = parse(f"{data}/{model}")
        assert args.share_all_embeddings == joined
        assert args.share_decoder_input_output_embed or joined


@each_recipe
def test_the_evaluation_averages_what_the_training_keeps(recipe):
    found = dict(line.split(" ", 1) if " " in line else (line, "") for line in section(recipe, "evaluate"))
    args = parse(recipe)
    kept = args.keep_last_epochs if not args.no_epoch_checkpoints else args.keep_interval_updates
    assert 1 < int(found["--average"]) <= kept
    assert int(found["--beam"]) >= 4
    assert ("--compound-split" in found) == recipe.startswith("wmt14-ende/")
