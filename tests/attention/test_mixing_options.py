"""The options of predictive attention and multi-token attention, and how these and their like start."""

import math

import pytest
import torch

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.errors import UserError
from laws import assert_close, draw_padded, scores
from mechanisms import MTA_2
from model_checks import native_only
from tiny import TINY, build, random_tokens

PAD = 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("pa_layers", value) for value in ("4", "-1", "1.5", "much")),
        *(("pa_alpha", value) for value in ("1.1", "nan")),
        *(("mta_query_kernel", value) for value in ("0", "2.5", "inf")),
        *(("mta_key_kernel", value) for value in ("2", "-1")),
        ("mta_head_kernel", "0"),
        ("mta_every", "0"),
    ],
)
def test_a_bad_value_is_refused_with_its_flag(option, value):
    with pytest.raises(UserError, match=f"--{option.replace('_', '-')} must be "):
        build(f"{option.split('_')[0]}_transformer", **TINY, **{option: value})


@pytest.mark.parametrize(("layers", "expected"), [(0, 0), (1, 1168), (2, 2336)])
def test_the_parameters_of_predictors_with_eight_heads(layers, expected):
    size = {**TINY, "encoder_layers": 3, "encoder_attention_heads": 8}
    plain, ours = build("transformer", **size), build("pa_transformer", **size, pa_layers=layers)
    numbers = [sum(parameter.numel() for parameter in model.parameters()) for model in (plain, ours)]
    assert numbers[1] - numbers[0] == expected


def test_predictive_attention_is_in_the_encoder_alone():
    model = build("pa_transformer", **{**TINY, "encoder_layers": 3})
    assert all(layer.self_attn.is_plain and layer.encoder_attn.is_plain for layer in model.decoder.layers)
    assert [len(layer.self_attn.convs) for layer in model.encoder.layers] == [0, 1, 1]


def test_no_weight_of_predicted_logits_is_plain_attention_to_the_last_bit():
    plain, ours = build("transformer", **TINY), build("pa_transformer", **TINY, pa_alpha=0)
    ours.load_state_dict(plain.state_dict())
    _, source, target = draw_padded(plain, seed=4)
    assert torch.equal(scores(ours, source, target), scores(plain, source, target))
    assert all(module.is_plain for module in ours.modules() if isinstance(module, Attention))


def test_a_plain_model_refuses_the_checkpoint_of_a_residual_alone():
    plain, ours = build("transformer", **TINY), build("pa_transformer", **TINY, pa_layers=0)
    with pytest.raises(RuntimeError):
        plain.load_state_dict(ours.state_dict())
    with pytest.raises(UserError, match="does not fit the model"):
        build("pa_transformer", **TINY).load_state_dict(ours.state_dict())


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *(("value_residual", {}), ("talking_heads", {}), ("mta_transformer", {"mta_every": 1, "no_mta_norm": True})),
        ("mta_transformer", {"mta_every": 1, **MTA_2, "no_mta_norm": True, "mta_gate": False}),
    ],
)
def test_a_plain_checkpoint_goes_on_as_it_is(family, options):
    plain, ours = build("transformer", **TINY), build(family, seed=2, **TINY, **options)
    ours.load_state_dict(plain.state_dict())
    _, source, target = draw_padded(plain, seed=4)
    found, expected = (scores(model, source, target)[target.ne(PAD)] for model in (ours, plain))
    assert_close(found, expected, 1e-5)


def test_values_are_weighted_by_half_at_the_start():
    model = build("value_residual", **TINY)
    found = [module.lambdas.tolist() for module in model.modules() if getattr(module, "lambdas", None) is not None]
    assert found == [[0.5, 0.5]] * 3


@native_only
def test_values_are_mixed_by_the_kernels_for_whole_attentions(monkeypatch):
    """And by those for decoding steps: nothing prepares what PyTorch would need."""
    model = build("value_residual", **TINY)
    monkeypatch.setattr(Inputs, "split_heads", lambda *_: pytest.fail("computed by PyTorch"))
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 3)
    with torch.no_grad():
        encoded, state = model.encoder(source), {}
        for step in range(1, 4):
            model.decoder(target[:, :step], encoder_out=encoded, incremental_state=state)


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [0, 1, 2, 3, 4, 5]), (2, [1, 3, 5]), (3, [1, 4]), (4, [2]), (13, [])]
)
def test_one_layer_in_so_many_has_the_convolution(every, expected):
    model = build("mta_transformer", **{**TINY, "encoder_layers": 6, "decoder_layers": 6}, mta_every=every)
    for layers, name in (("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "encoder_attn")):
        attentions = [getattr(layer, name) for layer in getattr(model, layers).layers]
        assert [layer for layer, attention in enumerate(attentions) if attention.conv is not None] == expected


def test_head_norms_are_scaled_by_depth():
    model = build("mta_transformer", **{**TINY, "encoder_layers": 3})
    scales = [layer.self_attn.depth_scale for layer in model.encoder.layers]
    assert scales == pytest.approx([1 - (0.8 - 0.6 * math.exp(-0.3 * layer)) for layer in range(3)])
    assert scales[0] == pytest.approx(0.8)


def test_version_2_is_not_scaled_by_depth_and_its_gates_start_around_a_half():
    model = build("mta_transformer", **{**TINY, "encoder_layers": 3}, **MTA_2)
    for layer in model.encoder.layers:
        assert layer.self_attn.depth_scale == 1
        assert not layer.self_attn.gate.bias.any()
        assert 0 < layer.self_attn.gate.weight.abs().max() <= 3 * 8**-0.5  # the model's width


def test_both_convolutions_are_in_the_same_layers():
    model = build("mta_transformer", **{**TINY, "encoder_layers": 6}, **MTA_2)
    assert [layer.self_attn.second_conv is not None for layer in model.encoder.layers] == [
        *2 * [False],
        True,
        *3 * [False],
    ]


def test_without_all_of_its_parts_multi_token_attention_is_plain():
    plain = build("transformer", **TINY)
    ours = build("mta_transformer", **TINY, mta_every=9, mta_head_kernel=1, no_mta_norm=True)
    assert plain.state_dict().keys() == ours.state_dict().keys()
    _, source, target = draw_padded(plain, seed=4)
    assert torch.equal(scores(ours, source, target), scores(plain, source, target))


def test_heads_that_make_no_groups_are_refused():
    with pytest.raises(UserError, match="--mta-head-kernel must divide the number of heads, and 3 is no divisor of 2"):
        build("mta_transformer", **TINY, mta_head_kernel=3)
