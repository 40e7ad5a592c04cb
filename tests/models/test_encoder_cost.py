"""What encoders and classifiers cost: formulas that equal what is counted on every model, and published sizes."""

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from ea_fairseq import UserError
from ea_fairseq.analysis.cost_formula import Side
from ea_fairseq.analysis.encoder_cost import as_published, parts
from ea_fairseq.models.roberta import MODELS
from encoders import OPTIONS, TINY, build
from experiments.costs.profiled_encoder import ProfiledEncoder
from tiny import dictionary

LENGTH = 6
NARROW = {"embedding_size": 6, "segments": 2, "no_token_positional_embeddings": True}
CHANGES = [
    NARROW,
    {"activation_fn": "gelu_accurate", "encoder_normalize_before": True},
    {"untie_weights_roberta": True, "encoder_learned_pos": False},
]
BRIEFLY = [name for name in MODELS if name.endswith(("_roberta", "_classifier"))]


def options_of(arch: str) -> dict[str, object]:
    """Those by which the mechanism of an encoder is on; a classifier's is."""
    return OPTIONS.get(MODELS[arch].family.name, {})


def with_head(arch: str, classes: int = 3, **options):
    model = build(arch, **options)
    model.register_classification_head("head", num_classes=classes)
    return model


def assert_formula_counts(arch: str, **options):
    model = with_head(arch, **{**TINY, **options})
    for name, (formula, counted) in ProfiledEncoder.of(model, Side(len(dictionary()), LENGTH)).checks.items():
        assert formula == counted, name


@pytest.mark.parametrize("arch", ["roberta", *BRIEFLY])
def test_formula_counts_models_of_each_family(arch):
    assert_formula_counts(arch, **(options_of(arch) if arch in MODELS else {}))


@pytest.mark.parametrize("arch", ["ea_roberta", pytest.param("composite_bert", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", CHANGES, ids=lambda options: next(iter(options)))
def test_formula_counts_single_options(arch, options):
    assert_formula_counts(arch, **options)


@pytest.mark.parametrize("arch", [name for name in MODELS if name.endswith("_classifier")])
def test_formula_counts_dense_connections_and_segments(arch):
    assert_formula_counts(arch, dense_connections=True, embedding_size=6, segments=2)


def test_an_option_without_formula_is_refused():
    model = with_head("ea_roberta", **TINY, quant_noise_pq=0.1)
    with pytest.raises(UserError, match=r"^there is no formula for the cost of --quant-noise-pq"):
        parts(model, Side(len(dictionary()), LENGTH))


def test_a_classifier_counts_all_but_its_embeddings():
    with FakeTensorMode():
        model = with_head("pa_transformer_classifier", 5, dense_connections=True)
        (published,) = as_published(model, parts(model, Side(len(dictionary()), LENGTH))).values()
    assert published == 2_789_173
