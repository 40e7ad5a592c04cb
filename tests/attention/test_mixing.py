"""Predictive attention, value residuals and talking heads with all their settings."""

from dataclasses import dataclass

import pytest
import torch

from ea_fairseq import UserError
from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost_formula import Side
from ea_fairseq.attention.attention import Attention, Sentences
from ea_fairseq.decoding.cache import DecodingStep
from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.cpu.native_library import LIBRARY
from experiments.costs.profiled_model import ProfiledModel
from laws import LAWS, assert_close, draw_padded, scores
from loops import Oracle
from model_checks import assert_equals_loops, by_our_forward
from oracles_mixing import Predictive, TalkingHeads, ValueResidual
from tiny import TINY, build, make_loud, random_tokens

PAD = 1


@dataclass(frozen=True)
class Setting:
    """A family with options, and what it computes with them."""

    family: str
    options: dict[str, object]
    oracle: Oracle

    def build(self, **options):
        return make_loud(build(self.family, **{**TINY, "encoder_layers": 3, **self.options, **options}))


SETTINGS = {
    **{
        f"PA of {layers} layers": Setting("pa_transformer", {"pa_layers": layers, "pa_alpha": 0.3}, Predictive(0.3))
        for layers in range(4)
    },
    "PA alone": Setting("pa_transformer", {"pa_alpha": 1.0}, Predictive(1.0)),
    "PA of Shaw": Setting("pa_transformer", {"relative_positions": "shaw"}, Predictive(0.1)),
    "value residual": Setting("value_residual", {"decoder_layers": 3}, ValueResidual()),
    "talking heads": Setting("talking_heads", {"decoder_attention_heads": 4}, TalkingHeads()),
    "talking heads of Shaw": Setting("talking_heads", {"relative_positions": "shaw"}, TalkingHeads()),
    "value residual of Shaw": Setting("value_residual", {"relative_positions": "shaw"}, ValueResidual()),
}
FAMILIES = {setting.family: setting for setting in SETTINGS.values()}
each_family = pytest.mark.parametrize("setting", FAMILIES.values(), ids=FAMILIES)
each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


@each_setting
def test_a_model_equals_loops(setting):
    assert_equals_loops(setting.build(), setting.oracle)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@each_setting
def test_law_holds(setting, law):
    law(setting.build(), seed=6)


@each_setting
def test_the_cost_by_formula_is_that_counted(setting):
    model = setting.build()
    profile = ProfiledModel.of(model, *(Side(len(side.dictionary), 6) for side in (model.encoder, model.decoder)))
    assert all(formula == counted for formula, counted in profile.checks.values()), profile.checks


def gradients(model, seed=4):
    """Of a training step on padded sentences, by parameter."""
    _, source, target = draw_padded(model.train(), seed)
    model.zero_grad()
    model(source, None, target)[0][target.ne(PAD)].cos().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@each_setting
def test_every_parameter_has_a_gradient(setting):
    assert [name for name, gradient in gradients(setting.build()).items() if gradient is None] == []


@each_setting
@pytest.mark.parametrize("of", ["", "layers.0.self_attn.v_proj", "decoder.layers.0.encoder_attn.v_proj"])
def test_the_loss_changes_along_its_gradient(setting, of):
    """Of all parameters, and of those that layers above may read again."""
    model = by_our_forward(setting.build().double())
    direction = {name: gradient for name, gradient in gradients(model).items() if of in name}
    slope = torch.stack([gradient.norm() for gradient in direction.values()]).norm()
    _, source, target = draw_padded(model, seed=4)
    losses = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            for name, gradient in direction.items():
                model.get_parameter(name).add_(gradient, alpha=step / slope)
            losses.append(model(source, None, target)[0][target.ne(PAD)].cos().sum())
    assert ((losses[0] - losses[1]) / 2e-6).item() == pytest.approx(slope.item(), rel=1e-4)


@each_family
def test_activation_checkpointing_changes_no_gradient(setting):
    expected = gradients(setting.build())
    found = gradients(setting.build(checkpoint_activations=True))
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6, msg=name)


@each_family
def test_one_graph_is_compiled_for_batches_of_every_size(setting):
    torch.compiler.reset()
    model, compiled = (setting.build(**TINY).train() for _ in range(2))
    compiled.compile(backend="eager", fullgraph=True, dynamic=True)
    for seed in (1, 2, 3):
        expected, found = (gradients(module, seed) for module in (model, compiled))
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


@each_family
@pytest.mark.parametrize("way", ["module", "autocast"])
def test_half_precision_trains_and_rounds_little(setting, way):
    exact = setting.build()
    _, source, target = draw_padded(exact, seed=4)
    model = setting.build().train()
    if way == "module":
        model = model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        output = model(source, None, target)[0]
    words = target.ne(PAD)
    output[words].float().cos().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert (output[words].float() - scores(exact, source, target)[words]).abs().mean() < 0.1


@each_family
def test_an_exported_model_computes_the_same(setting):
    model = setting.build(**TINY)
    _, source, target = draw_padded(model, seed=4)
    encoder = torch.export.export(model.encoder, (source,), strict=True).module()
    decoder = torch.export.export(model.decoder, (target, model.encoder(source)), strict=True).module()
    with torch.no_grad():
        found, expected = decoder(target, encoder(source))[0], scores(model, source, target)
    words = target.ne(PAD)
    assert_close(found[words], expected[words], 1e-5)


@pytest.mark.parametrize(
    ("option", "value"),
    [("pa_layers", "4"), ("pa_layers", "-1"), ("pa_layers", "1.5"), ("pa_alpha", "1.1"), ("pa_alpha", "nan")],
)
def test_a_bad_value_is_refused_with_its_flag(option, value):
    with pytest.raises(UserError, match=f"--{option.replace('_', '-')} must be "):
        build("pa_transformer", **TINY, **{option: value})


@pytest.mark.parametrize(("layers", "expected"), [(0, 0), (1, 1168), (2, 2336)])
def test_the_parameters_of_predictors_with_eight_heads(layers, expected):
    size = {**TINY, "encoder_layers": 3, "encoder_attention_heads": 8}
    plain, ours = build("transformer", **size), build("pa_transformer", **size, pa_layers=layers)
    numbers = [sum(parameter.numel() for parameter in model.parameters()) for model in (plain, ours)]
    assert numbers[1] - numbers[0] == expected


def test_predictive_attention_is_in_the_encoder_alone():
    model = SETTINGS["PA of 1 layers"].build()
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each_setting
def test_maps_that_are_kept_for_the_backward_pass(setting, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "backend", "reference")
    model = by_our_forward(setting.build(encoder_attention_heads=4)).to(dtype).train()
    kept = {}

    def keep(tensor):
        if tensor.is_floating_point() and tensor.numel() == 4 * 31 * 31:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.encoder(torch.full((1, 31), 5))
    kind = AttentionCost.of([layer.self_attn for layer in model.encoder.layers], 31, 31)
    assert sum(storage.nbytes() for storage in kept.values()) == kind.kept_for_backward(half=dtype != torch.float32)


@pytest.mark.parametrize("family", ["value_residual", "talking_heads"])
def test_a_plain_checkpoint_goes_on_as_it_is(family):
    plain, ours = build("transformer", **TINY), build(family, seed=2, **TINY)
    ours.load_state_dict(plain.state_dict())
    _, source, target = draw_padded(plain, seed=4)
    found, expected = (scores(model, source, target)[target.ne(PAD)] for model in (ours, plain))
    assert_close(found, expected, 1e-5)


def test_values_are_weighted_by_half_at_the_start():
    model = build("value_residual", **TINY)
    found = [module.lambdas.tolist() for module in model.modules() if getattr(module, "lambdas", None) is not None]
    assert found == [[0.5, 0.5]] * 3


@pytest.mark.skipif(not LIBRARY, reason="not compiled")
def test_values_are_mixed_by_the_kernels_for_whole_attentions(monkeypatch):
    """And by those for decoding steps: nothing prepares what PyTorch would need."""
    model = SETTINGS["value residual"].build()
    for inputs in (Sentences, DecodingStep):
        monkeypatch.setattr(inputs, "prepare", lambda self: pytest.fail("computed by PyTorch"))
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 3)
    with torch.no_grad():
        encoded, state = model.encoder(source), {}
        for step in range(1, 4):
            model.decoder(target[:, :step], encoder_out=encoded, incremental_state=state)


def test_where_layers_are_dropped_the_first_that_is_left_gives_the_values():
    model = SETTINGS["value residual"].build(encoder_layerdrop=0.5, decoder_layerdrop=0.5)
    torch.manual_seed(3)
    for _ in range(5):
        found = gradients(model)
        assert all(gradient is None or gradient.isfinite().all() for gradient in found.values())
