"""Recipes of encoders: fairseq takes them, they train as the papers say, and differ in what makes a model alone."""

import math

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from torch._subclasses.fake_tensor import FakeTensorMode

from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.experiments.scoring.encoder_outcome import REPORTED
from ea_fairseq.models.encoder_options import ClassifierOptions, EncoderOptions
from projects import make_project, refusal, succeed
from recipes import assert_differs_in_its_model_alone, parse, recipe_texts, section
from tiny import dictionary

MODELS = {
    "mini": ["bert", "ea_bert", "pa_bert", "realformer_bert"],
    "classifier": [
        *("cnn", "transformer", "pa_transformer", "conv_transformer", "pa_conv_transformer", "ea_transformer"),
    ],
    "tiny": [
        *("no-positions_roberta", "roberta", "composite-fixed_roberta", "composite-dynamic_roberta"),
        *("composite_roberta", "ea-composite_roberta"),
    ],
}
PLAIN = {"mini": "bert_mini", "classifier": "transformer_classifier", "tiny": "roberta_tiny"}
SENTENCES = {"cola": 8551, "sst-2": 67349, "mrpc": 3668, "rte": 2490, "wnli": 635, "sts-b": 5749}
EPOCHS = {"cola": 3, "sst-2": 5, "mrpc": 2, "rte": 5, "wnli": 2, "sts-b": 3}  # PA, table 7, but for RTE's 2
RATES = {"sst-2": 1e-5, "sts-b": 1e-4}  # PA, table 7, but for the 2e-5 of STS-B
SCORES = {"cola": "report_mcc", "mrpc": "report_acc_and_f1", "sts-b": "regression_target"}
WINDOWS = {"movies": 3894, "multirc": 24029}  # of 400 words; of MultiRC examples
SIZES = {
    **dict.fromkeys([*(f"glue-{task}" for task in SENTENCES), *WINDOWS], "mini"),
    "sst5": "classifier",
    "masked-lm": "tiny",
}
EXAMPLES = {f"{form}-{task}": count for form in ("glue", "t5") for task, count in SENTENCES.items()} | WINDOWS
EXAMPLES |= {"sst5": 8544, "cifar10": 45_000}  # images without the tenth for validation
RECIPES = [f"{data}/{name}_{size}" for data, size in SIZES.items() for name in MODELS[size]]
POOLED = [f"{data}/bert_pooled" for data in WINDOWS]


def test_every_data_set_has_every_model_of_its_size():
    assert {name for name in recipe_texts() if name.partition("/")[0] in SIZES} == {*RECIPES, *POOLED}


@pytest.mark.parametrize("recipe", [f"{data}/{PLAIN[size]}" for data, size in SIZES.items()])
def test_fairseq_takes_the_flags_and_the_learning_rate_falls_to_the_last_update(recipe):
    config = convert_namespace_to_omegaconf(parse(recipe))
    assert config.task._name == config.criterion._name.removeprefix("ea_") and config.common.seed == 1
    schedule = config.lr_scheduler
    assert schedule.get("total_num_update", schedule.get("max_update")) == config.optimization.max_update


@pytest.mark.parametrize("recipe", [name for name in recipe_texts() if name.partition("/")[0] in EXAMPLES])
def test_the_updates_are_the_epochs(recipe):
    args = parse(recipe)
    batches = math.ceil(EXAMPLES[recipe.partition("/")[0]] / args.batch_size)
    assert args.max_update == (0 if recipe in POOLED else args.max_epoch * batches)


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.startswith(("glue-cola", "sst5", "masked"))])
def test_the_flags_build_their_model(recipe):
    args = parse(recipe)
    with FakeTensorMode():
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, Task(args))
    assert model.max_positions() == (getattr(args, "tokens_per_sample", None) or args.max_positions)


class Task:
    source_dictionary = dictionary()

    def __init__(self, args):
        self.max_positions = lambda: args.max_positions


@pytest.mark.parametrize("task", SENTENCES)
def test_glue_is_trained_as_predictive_attention_has_it(task):
    args = parse(f"glue-{task}/ea_bert_mini")
    assert (args.batch_size, args.max_epoch, args.dropout) == (8, EPOCHS[task], 0.1)
    assert args.lr == [RATES.get(task, 2e-5)]
    reported = [name for name in REPORTED if getattr(args, name)]
    assert reported == ([SCORES[task]] if task in SCORES else [])
    assert args.num_classes == (1 if task == "sts-b" else 2)
    assert f"--task {task} " in section(f"glue-{task}/ea_bert_mini", "data")[0]


@pytest.mark.parametrize("task", WINDOWS)
def test_classifiers_of_documents_are_trained_for_two_epochs(task):
    args = parse(f"{task}/ea_bert_mini")
    assert (args.max_epoch, args.lr, args.max_positions, args.init_token, args.num_classes) == (2, [2e-5], 512, 0, 2)
    assert section(f"{task}/ea_bert_mini", "data")[0].startswith("ea-fairseq prepare rationales ")


@pytest.mark.parametrize("recipe", POOLED)
def test_the_head_of_erasers_baseline_is_trained_alone(recipe):
    args, data = parse(recipe), recipe.partition("/")[0]
    assert (args.optimizer, args.lr, args.batch_size, args.max_epoch, args.patience) == ("adam", [1e-3], 4, 20, 5)
    assert (args.clip_norm, args.pooler_activation_fn, args.pooler_dropout) == (10, "relu", 0.2)
    assert (args.best_checkpoint_metric, args.lr_scheduler, args.max_update) == ("accuracy", "fixed", 0)
    with FakeTensorMode():
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, Task(args))
        model.register_classification_head("head", num_classes=2)
    trained = {name: parameter.numel() for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(name.startswith("classification_heads.") for name in trained)
    assert sum(trained.values()) == 691_074
    for name in ("data", "evaluate"):
        assert section(recipe, name) == section(f"{data}/bert_mini", name)


def test_classifiers_are_trained_for_the_epochs_of_the_paper():
    args = parse("sst5/pa_transformer_classifier")
    assert args.max_update == 1340
    classifier = ClassifierOptions.from_namespace(args)
    assert (args.lr, args.min_lr, classifier.embedding_dropout, args.dropout) == ([4e-4], 1e-6, 0.4, 0.2)
    assert classifier.dense_connections and args.pa_alpha == 0.1


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_model_differs_from_the_plain_one_in_nothing_but_what_makes_it(recipe):
    plain = PLAIN[SIZES[recipe.partition("/")[0]]]
    assert_differs_in_its_model_alone(recipe, plain, TermOptions, EncoderOptions, ClassifierOptions)


def test_a_recipe_starts_from_a_checkpoint_of_the_project_or_says_how_to_make_it(tmp_path):
    project = make_project(tmp_path / "a project")
    recipe = project / "ea_fairseq/experiments/recipes/datasets/toy.recipe"
    recipe.write_text(recipe.read_text().replace("[evaluate]", "--finetune-from-model runs/plain/model.pt\n[evaluate]"))
    sentence = refusal(project, "train.sh", "toy/transformer_lite")
    assert f"starts from {project}/runs/plain/model.pt, which is not there: make it as docs/" in sentence
    other = ["--finetune-from-model", "other.pt"]
    succeed(project, "train.sh", "--out", tmp_path / "from another", "toy/transformer_lite", *other)
    (project / "runs/plain").mkdir(parents=True)
    (project / "runs/plain/model.pt").touch()
    succeed(project, "train.sh", "--out", tmp_path / "a run", "toy/transformer_lite")
    command = (tmp_path / "a run/run.json").read_text()
    assert f'"--finetune-from-model",\n  "{project}/runs/plain/model.pt"' in command
