"""The mechanisms of 2024 to 2026: their settings, their sizes, how they start, what is refused."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from ea_fairseq.search.support import unsupported_reasons
from graphs import build_network
from images import build_tiny as build_image_model
from laws import FURTHER_LAWS, LAWS, assert_close, draw_padded, scores
from loops import Evolving
from mechanisms import EVOLUTION, KINDS, WEIGHTS, build_family
from model_checks import (
    assert_equals_loops,
    assert_every_parameter_learns,
    assert_loss_changes_along_its_gradient,
    by_our_forward,
)
from oracles_mixing import ValueResidual
from oracles_rivals import (
    Both,
    Composable,
    Depth,
    Differential,
    Differential2,
    EvolvingGated,
    Gated,
    Lime,
    Moda,
    Sinking,
)
from tiny import TINY, build, make_loud, sizes

PAD = 1
NO_CONVOLUTIONS = Evolving(dict.fromkeys(KINDS, 0.4), dict.fromkeys(KINDS, 0.0))
SETTINGS = {  # family, options, oracle: beside the rows in support/mechanisms.py
    "gates of channels": ("gated_attention", {"gate": "channel"}, Gated()),
    "softmax off by one": ("sink_attention", {"sink": "one"}, Sinking()),
    "composed by queries": ("composable_attention", {}, Composable()),
    "two pairs": ("diff_transformer", {}, Differential()),
    "second queries": ("diff_transformer", {"diff_version": 2}, Differential2()),
    "second queries, rotated": (
        "diff_transformer",
        {"diff_version": 2, "relative_positions": "rope", "qk_norm": True},
        Differential2(),
    ),
    "evolving, with gates of channels": (
        "ea_gated_attention",
        {**EVOLUTION, "gate": "channel"},
        EvolvingGated(*WEIGHTS),
    ),
    "every second layer": ("depth_attention", {"depth_every": 2}, Depth(2)),
    "layers mixed": ("lime", {}, Lime()),
    "words and depths, rotated": ("moda", {"relative_positions": "rope", "qk_norm": True}, Moda()),
    "skips and value residuals": (
        "ea_value_residual",
        {**EVOLUTION, "no_encoder_conv": True, "no_decoder_conv": True, "no_cross_conv": True},
        Both(NO_CONVOLUTIONS, ValueResidual()),
    ),
    "depth alone": (
        "ea_depth_attention",
        {"ea_alpha": 0.0, "ea_beta": 0.0},
        Both(Evolving(dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)), Depth()),
    ),
}
each_setting = pytest.mark.parametrize("name", SETTINGS)


def build_with(name: str):
    family, options, _ = SETTINGS[name]
    return make_loud(build(family, **{**sizes(attention_heads=4, layers=3), **options}))


@each_setting
def test_a_model_equals_loops(name):
    assert_equals_loops(build_with(name), SETTINGS[name][2])


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each_setting
def test_law_holds(name, law):
    law(build_with(name), seed=3)


@each_setting
def test_every_parameter_learns(name):
    assert_every_parameter_learns(build_with(name))


@each_setting
def test_the_loss_changes_along_its_gradient(name):
    assert_loss_changes_along_its_gradient(build_with(name))


LITE = {  # parameters more than the plain model's, of Lite size: 18 attentions of width C = 160 and K = 4 heads
    "gated_attention": ({}, 18 * 160 * 4),
    "gated_attention by channel": ({"gate": "channel"}, 18 * 160**2),
    "exclusive_attention": ({}, 0),
    "sink_attention": ({}, 18 * 4),
    "sink_attention off by one": ({"sink": "one"}, 0),
    "depth_attention": ({}, 0),
    "ea_gated_attention": ({}, 18 * (160 * 4 + 9 * 4**2 + 4)),
    "lime": ({}, 2 * 4**2 * (2 + 3 + 4 + 5 + 6)),
    "moda": ({}, 0),
    "diff_transformer": ({}, 18 * 6 * 40),
    "diff_transformer of version 2": ({"diff_version": 2}, 18 * (160**2 + 160 * 4)),
    "composable_attention": ({}, 18 * (10 * 160 * 4 + 32 * 4**2)),
    "composable_attention by both": ({"compose_by_key": True}, 18 * (20 * 160 * 4 + 64 * 4**2)),
    "ea_transformer of no weight": ({"ea_alpha": 0, "ea_beta": 0, "forget_gates": True}, (6 + 2 * 6) * (160 + 1) * 4),
}


@pytest.mark.parametrize("name", LITE)
def test_parameters_are_as_many_as_the_formulas_say(name):
    (options, expected), arch = LITE[name], name.split()[0]
    models = build(f"{arch}_lite", **options), build("transformer_lite")
    counts = [sum(map(torch.numel, model.parameters())) for model in models]
    assert counts[0] - counts[1] == expected


def scores_beside_plain(family, change=lambda attention: None, **options):
    """Scores of a model with a plain Transformer's parameters and its mechanism, once changed; and of the plain one."""
    plain = make_loud(build("transformer", **TINY)).double()
    model = by_our_forward(build(family, seed=2, **{**TINY, **options}).double())
    model.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for attention in (module for module in model.modules() if isinstance(module, Attention)):
            change(attention)
    _, source, target = draw_padded(plain, seed=4)
    return tuple(scores(each, source, target)[target.ne(PAD)] for each in (model, plain))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("lime", {}),
        ("composable_attention", {}),
        ("composable_attention", {"compose_by_key": True}),
        ("ea_value_residual", {"no_encoder_skip": True}),
    ],
)
def test_a_plain_checkpoint_goes_on_as_it_is(family, options):
    found, expected = scores_beside_plain(family, **options)
    assert_close(found, expected, 1e-6)


def close_sink(attention):
    attention.sinks.fill_(-40.0)


def open_gates(attention):
    attention.gates.weight.zero_()
    attention.out_proj.weight.mul_(2.0)  # a gate of 0 halves


@pytest.mark.parametrize(("family", "change"), [("sink_attention", close_sink), ("gated_attention", open_gates)])
def test_a_sink_of_no_weight_and_gates_of_no_word_are_plain_attention(family, change):
    assert_close(*scores_beside_plain(family, change), 1e-6)


def test_a_first_word_that_attends_to_itself_alone_has_no_exclusive_output():
    attention = build_family("exclusive_attention").decoder.layers[0].self_attn
    x = torch.randn(1, 2, 8)
    assert_close(attention(x, x, x)[0], attention.out_proj.bias.expand(1, 2, 8), 1e-6)


def test_probabilities_beside_a_sink_sum_to_less_than_one():
    attention = build("sink_attention", **TINY, sink="one").encoder.layers[0].self_attn
    torch.nn.init.zeros_(attention.k_proj.bias)
    x = torch.randn(5, 2, 8)
    weights = attention(x, 0 * x, x, need_head_weights=True)[1]
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 6))  # all logits are 0


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *((family, Attention) for family in ("exclusive_attention", "depth_attention", "lime", "moda")),
        *((family, EvolvingAttention) for family in ("ea_depth_attention", "ea_exclusive_attention")),
    ],
)
def test_what_is_of_one_sentence_alone_leaves_attention_to_the_source(family, kind):
    assert {type(layer.encoder_attn) for layer in build(family, **TINY).decoder.layers} == {kind}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("composable_attention", {"compose_by_key": True}),
        ("gated_attention", {"gate": "channel"}),
        ("diff_transformer", {}),
        ("diff_transformer", {"diff_version": 2}),
        ("depth_attention", {}),
        ("lime", {}),
        ("moda", {}),
    ],
)
def test_heads_and_sides_may_have_other_widths(family, options):
    given = {**TINY, "head_dim": 6, "decoder_embed_dim": 12, "decoder_attention_heads": 4, **options}
    model = make_loud(build(family, **given))
    for law in LAWS:
        law(model, seed=3)
    assert_every_parameter_learns(model)


EXCLUSIVE = {"exclusive_attention", "ea_exclusive_attention"}
RIVALS = sorted({family for family, _, _ in SETTINGS.values()} | EXCLUSIVE)


@pytest.mark.parametrize("family", RIVALS)
def test_native_search_translates_with_those_that_it_knows_and_gives_a_reason_for_others(family):
    title = FAMILIES[family].attention.title
    reason = f"native code does not support {title} with these options"
    known = {*EXCLUSIVE, "gated_attention", "ea_gated_attention", "sink_attention", "ea_value_residual"}
    assert (reason in {*unsupported_reasons(build(family, **TINY))}) is (family not in known)


def test_edges_of_a_graph_have_no_such_mechanism():
    assert not {FAMILIES[family].model("gat") for family in RIVALS} & ARCH_MODEL_REGISTRY.keys()
    with pytest.raises(UserError, match="evolving attention reads more than single entries of a map"):
        build_network("ea_gat", GraphDescription(9, 3, 12, 20, 30), ea_learned="input")


@pytest.mark.parametrize(
    ("family", "options", "sentence"),
    [
        ("diff_transformer", sizes(embed_dim=6, attention_heads=3), "--diff-version 1 pairs heads, and 3 is an odd"),
        ("gated_attention", {"gate": "word"}, "--gate must be head or channel, not 'word'"),
        ("sink_attention", {"sink": "0"}, "--sink must be learned or one, not '0'"),
        ("depth_attention", {"depth_every": 0}, "--depth-every must be a whole number from 1 up, not 0"),
        ("diff_transformer", {"diff_version": 3}, "--diff-version must be a whole number from 1 to 2, not 3"),
        (
            "diff_transformer",
            {"diff_version": 2, "relative_positions": "t5", "no_content_scores": True},
            "--diff-version 2 needs keys",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(family, options, sentence):
    with pytest.raises(UserError, match=sentence):
        build(family, **{**TINY, **options})


def test_forget_gates_of_pixels_are_refused():
    with pytest.raises(UserError, match="--forget-gates is for sequences"):
        build_image_model("vit_tiny", "ea_transformer", forget_gates=True)


def test_lime_needs_all_layers():
    model = build("lime", **TINY)
    model.encoder.layers = model.encoder.layers[1:]
    _, source, target = draw_padded(model, seed=1)
    with pytest.raises(UserError, match="LIMe mixes all layers: --encoder-layerdrop"):
        model(source, None, target)


def test_layers_below_are_read_of_the_same_words():
    attention, x = build("lime", **TINY).encoder.layers[0].self_attn.eval(), torch.randn(5, 2, 8)
    torch.testing.assert_close(attention(x, x.clone(), x)[0], attention(x, x, x)[0])
    attention.self_attention = False
    with pytest.raises(ValueError, match="LIMe takes the same tensor of words"):
        attention(x, x.clone(), x)
