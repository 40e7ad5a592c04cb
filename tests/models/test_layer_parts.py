"""What must hold for the parts of layers that flags choose: norms, gates, biases, QK-norm, rotary positions, scales."""

import math

import pytest
import torch
from torch import nn

from ea_fairseq.attention.query_key import rotate, rotations
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.models.layer_options import LayerOptions
from laws import FURTHER_LAWS, LAWS, scores
from mechanisms import ROWS
from model_checks import (
    assert_equals_loops,
    assert_every_parameter_learns,
    assert_kernels_agree,
    assert_torch_counts_the_same,
    native_only,
)
from tiny import TINY, build, make_loud, random_tokens

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
PARTS = {
    "rms": {"norm": "rms"},
    "rms before": {"norm": "rms", **PRE_NORM},
    "swiglu": {"ffn": "swiglu"},
    "geglu": {"ffn": "geglu", "gated_ffn_dim": 3},
    "no biases": {"no_biases": True},
    "QK-norm": {"qk_norm": True},
    "rotary": {"relative_positions": "rope", "lightweight_conv": "none"},
}
MODERN = {name: value for options in PARTS.values() for name, value in options.items()} | {"ffn": "swiglu"}
ALL = {**PARTS, "all": MODERN}
GATES = {
    "swiglu": lambda x: x / (1 + math.exp(-x)),
    "geglu": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
each_part = pytest.mark.parametrize("options", ALL.values(), ids=ALL)
WITHOUT_DOT_PRODUCTS = "synthesizer", "quadratic_transformer"  # in self-attentions


def build_with(options, family="ea_transformer"):
    """A model, its norms' weights not all 1."""
    model = make_loud(build(family, **{**TINY, **ROWS[family].options, **options}))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.RMSNorm, nn.LayerNorm)):
                module.weight.uniform_(0.5, 1.5)
    return model


@each_part
def test_a_model_equals_loops(options):
    assert_equals_loops(build_with(options), ROWS["ea_transformer"].oracle, GATES.get(options.get("ffn")))


@pytest.mark.parametrize("family", [family for family in ROWS if family not in WITHOUT_DOT_PRODUCTS])
def test_each_mechanism_with_all_of_them_equals_loops(family):
    assert_equals_loops(build_with(MODERN, family), ROWS[family].oracle, GATES["swiglu"])


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("options", [PARTS["QK-norm"], PARTS["rotary"], MODERN], ids=["QK-norm", "rotary", "all"])
def test_law_holds(options, law):
    law(build_with({**options, "no_token_positional_embeddings": True}), seed=3)


@each_part
def test_every_parameter_learns(options):
    assert_every_parameter_learns(build_with(options))


@native_only
@pytest.mark.parametrize("family", ["ea_transformer", "realformer", "modern_transformer"])
def test_kernels_compute_what_the_equations_do(family, monkeypatch):
    model = build("modern_transformer", **TINY) if family == "modern_transformer" else build_with(MODERN, family)
    assert_kernels_agree(model, "native", monkeypatch)


def test_torchs_own_counter_of_flops_agrees(monkeypatch):
    monkeypatch.setattr("ea_fairseq.kernels.dispatch.backend", "reference")
    assert_torch_counts_the_same(build_with(MODERN))


def test_half_precision_is_finite():
    """In bfloat16 and under autocast; each parameter has a gradient."""
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    for half in (True, False):
        model = build_with(MODERN).train()
        model = model.to(torch.bfloat16) if half else model
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not half):
            loss = model(source, None, target)[0].cos().sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        assert loss.isfinite() and all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("first", [0, 3, 1000])
def test_products_of_rotated_vectors_depend_on_their_distance_alone(first):
    torch.manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    places = torch.arange(5) + first
    turned = rotate(query.expand(5, -1, -1, -1), rotations(places, 8)) * rotate(
        key.expand(5, -1, -1, -1), rotations(places + 2, 8)
    )
    torch.testing.assert_close(turned.sum(-1), turned.sum(-1)[:1].expand(5, 1, 1), rtol=0, atol=1e-10)
    torch.testing.assert_close(rotate(query, rotations(torch.zeros(1), 8)), query)


FAIRSEQS = {  # families whose attentions fairseq's own forward computes, all or some of them
    "ea_transformer": {"ea_alpha": 0.0, "ea_beta": 0.0},
    "pa_transformer": {},
    "mta_transformer": {"mta_head_kernel": 1, "no_mta_norm": True},
    "modern_transformer": {"qk_norm": False, "relative_positions": "none"},
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("family", FAIRSEQS)
@torch.no_grad()
def test_layers_without_biases_are_those_whose_biases_are_zeros(family, training):
    options = {**TINY, **FAIRSEQS[family]}
    without, zeros = (build(family, **options, no_biases=lacks).train(training) for lacks in (True, False))
    shared = dict(without.named_parameters())
    for name, parameter in zeros.named_parameters():
        parameter.copy_(shared[name]) if name in shared else parameter.zero_()
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    torch.testing.assert_close(scores(without, source, target), scores(zeros, source, target))


@torch.no_grad()
def test_scores_that_are_not_scaled_are_those_of_larger_queries():
    scaled, unscaled = build_with({}), build_with({"no_scale_attention": True})
    for layer in (*scaled.encoder.layers, *scaled.decoder.layers):
        for attention in (layer.self_attn, getattr(layer, "encoder_attn", None)):
            if attention is not None:
                attention.q_proj.weight *= attention.head_dim**0.5
                attention.q_proj.bias *= attention.head_dim**0.5
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    torch.testing.assert_close(scores(scaled, source, target), scores(unscaled, source, target))


def test_logits_are_scaled_by_the_width():
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    plain, scaled = (scores(build_with({"scale_logits": on}), source, target) for on in (False, True))
    torch.testing.assert_close(scaled, plain / math.sqrt(8))


@pytest.mark.parametrize(("plain", "gated"), [(8, 8), (160, 104), (2048, 1368), (1, 8)])
def test_gated_networks_have_two_thirds_of_the_width(plain, gated):
    options = LayerOptions(ffn="swiglu")
    assert (options.hidden_units(plain), options.first_outputs(plain)) == (gated, 2 * gated)
    assert LayerOptions(ffn="swiglu", gated_ffn_dim=5).hidden_units(plain) == 5
    assert LayerOptions().first_outputs(plain) == plain


@pytest.mark.parametrize("family", [*ROWS, None])
def test_a_modern_transformer_has_all_of_them(family):
    """Where the scores of self-attentions are the mechanism's own, queries and keys are not rotated."""
    name = FAMILIES[family].model("modern_transformer") if family else "modern_transformer"
    layer = build(f"{name}_lite", encoder_layers=1, decoder_layers=1).decoder.layers[0]
    norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
    assert layer.normalize_before and all(isinstance(norm, nn.RMSNorm) for norm in norms)
    assert layer.fc1.bias is layer.self_attn.v_proj.bias is layer.self_attn.out_proj.bias is None
    assert (layer.fc1.out_features, layer.fc2.in_features) == (224, 112)
    own_scores = family in (*WITHOUT_DOT_PRODUCTS, "composite_transformer")
    assert layer.self_attn.query_key.rotates is not own_scores and not layer.encoder_attn.query_key.rotates
    for attention in (layer.self_attn, layer.encoder_attn):
        assert attention.query_key.norms.keys() == set(attention.projected) & {"q", "k"}


def test_a_plain_modern_checkpoint_starts_a_modern_model_with_a_mechanism(caplog):
    plain, evolving = build("modern_transformer", **TINY), build("ea_modern_transformer", **TINY, ea_beta=0.0)
    with caplog.at_level("INFO", logger="ea_fairseq"):
        evolving.load_state_dict(plain.state_dict())
    assert caplog.messages[0].startswith("the checkpoint is a plain model's: ")
    own = evolving.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in plain.state_dict().items())


def test_terms_of_a_plain_checkpoint_are_taken():
    options = {**TINY, "relative_positions": "t5"}
    plain, evolving = build("modern_transformer", **options), build("ea_modern_transformer", **options, seed=2)
    evolving.load_state_dict(plain.state_dict())
    weight = "encoder.layers.0.self_attn.terms.1.weight"
    assert torch.equal(evolving.state_dict()[weight], plain.state_dict()[weight])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"norm": "batch"}, "--norm must be layer or rms"),
        ({"ffn": "glu"}, "--ffn must be one of"),
        ({"connections": "delta", "streams": 2}, "^--connections delta has no streams for --streams to act on$"),
        ({"relative_positions": "rope", "attention_type": "additive"}, "rotates the queries and keys"),
        ({"relative_positions": "rope", "no_content_scores": True}, "rotates the queries and keys"),
        ({"relative_positions": "rope", "synthesizer": "random"}, "rotates the queries and keys"),
        ({"relative_positions": "rope", "encoder_embed_dim": 6, "decoder_embed_dim": 6}, "rotates pairs"),
    ],
)
def test_bad_flags_are_refused(options, sentence):
    with pytest.raises(UserError, match=sentence):
        build("ea_transformer", **{**TINY, **options})
