"""DC-Transformers with each mechanism, and their baselines: equations, padding, later steps, parameters."""

import argparse
import copy
from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F
from fairseq.models import ARCH_MODEL_REGISTRY

from ea_fairseq.attention.maps import by_layer
from ea_fairseq.attention.recording import recording
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.blocks.token_convolution import TokenConvolution
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.models.time_series import StepNorm
from ea_fairseq.models.time_series_options import DCTransformerOptions
from ea_fairseq.plain.flags import flag_of
from laws import assert_close
from loops import Oracle, attend
from mechanisms import ROWS
from model_checks import by_our_forward, native_only
from time_series import (
    BASELINES,
    HEAD,
    LONGEST,
    MECHANISMS,
    TERMS,
    build,
    build_tiny,
    classes,
    describe,
    draw,
    represent,
)

ORACLES = {family.model("dc_transformer"): ROWS[name].oracle for name, family in FAMILIES.items() if name in ROWS}
WITHOUT = {"time_series_transformer": {"attention_share": 1.0}, "dilated_cnn": {"attention_share": 0.0}}
CASES = {
    **{arch: (arch, {}) for arch in ("dc_transformer", *MECHANISMS, *BASELINES)},
    **{arch: (arch, given) for arch, given in WITHOUT.items()},
    "with a term": ("ea_dc_transformer", TERMS),
    "without convolution": ("ea_dc_transformer", {"attention_share": 1.0}),
    "causal": ("ea_dc_transformer", {"causal_conv": True}),
}
each_case = pytest.mark.parametrize(("arch", "given"), CASES.values(), ids=CASES)
each_attention = pytest.mark.parametrize("arch", ["dc_transformer", *MECHANISMS])


def step_norm(norm, x):
    """Batch norm in evaluation, of (T, C)."""
    return (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias


def dilated(layer, x, number, causal):
    """The dilated convolution of a layer, (T, d) -> (T, (1 - p) d), as a loop  (CEAN eq. 6)."""
    conv, dilation = layer.dilated.conv, 2**number
    output = conv.bias.repeat(len(x), 1)
    for t in range(len(x)):
        for tap in range(3):
            s = t + dilation * (tap - 2 if causal else tap - 1)
            if 0 <= s < len(x):
                output[t] += conv.weight[:, :, tap] @ x[s]
    return output


def loops(model, series, oracle, causal=False):
    """The representation (T, d) of one series (T, C), without padding."""
    encoder, previous, before = model.encoder, None, None
    x = 4.0 * (series @ encoder.project_in.weight.T + encoder.project_in.bias)  # the root of the width 16
    x = x + encoder.embed_positions.weight[: len(x)]
    for number, layer in enumerate(encoder.layers):
        before = x if number % 2 == 0 else before
        found = []
        if layer.self_attn is not None:
            length = len(x)
            given, previous = attend(layer.self_attn, x, x, "encoder", previous, length, length, oracle)
            found.append(given)
        if layer.dilated is not None:
            found.append(dilated(layer, x, number, causal))
        x = step_norm(layer.norm, torch.cat(found, dim=1))
        x = (x @ layer.fc1.weight.T + layer.fc1.bias).clamp(min=0) @ layer.fc2.weight.T + layer.fc2.bias
        if number % 2 == 1:
            x = step_norm(encoder.norms[number // 2], before + x)
    return x


@torch.no_grad()
@pytest.mark.parametrize(
    ("arch", "given"),
    [pytest.param(*case, id=name) for name, case in CASES.items() if name not in BASELINES],
)
def test_a_model_equals_loops(arch, given):
    """In float64, of a series with padding and one without, the read-out included."""
    blocks = {"blocks": 2 if arch == "ea_dc_transformer" else 1}
    model = by_our_forward(build_tiny(arch, **blocks, **given).double())
    source, padding = draw(3, (5, 3))
    source = source.double()
    found, outputs = represent(model, source, padding), classes(model, source, padding)
    head = model.classification_heads[HEAD]
    for row, steps in enumerate((5, 3)):
        x = loops(model, source[row, :steps], ORACLES.get(arch, Oracle()), given.get("causal_conv", False))
        torch.testing.assert_close(found[row, :steps], x, rtol=0, atol=1e-10)
        gelu = x * (1 + torch.erf(x / 2**0.5)) / 2
        expected = head.weight[:, : 16 * steps] @ gelu.flatten() + head.bias
        torch.testing.assert_close(outputs[row], expected, rtol=0, atol=1e-10)


@each_case
def test_padding_and_other_series_change_nothing(arch, given):
    """In training, too, where batch norms count real steps alone."""
    model = build_tiny(arch, **given) if arch not in BASELINES else build(arch, width=16, blocks=2, dropout=0.0)
    source, padding = draw(1)
    together, outputs = represent(model, source, padding), classes(model, source, padding)
    rounding = max(1e-4, 1e-5 * together.abs().max())  # of float32: some models' representations are large
    for row in range(len(source)):
        alone = source[row : row + 1, ~padding[row]], padding[row : row + 1, ~padding[row]]
        assert_close(together[row, ~padding[row]], represent(model, *alone)[0], rounding)
        assert_close(outputs[row], classes(model, *alone)[0], rounding)
    shorter = source[1:3, :6], padding[1:3, :6]
    longer = F.pad(shorter[0], (0, 0, 0, 3), value=7.0), F.pad(shorter[1], (0, 3), value=True)
    trained = [represent(copy.deepcopy(model).train(), *series)[:, :6] for series in (shorter, longer)]
    real = ~shorter[1]
    assert_close(trained[0][real], trained[1][real], 1e-4)


def gradients(model, source, padding):
    """The loss and the gradients of a step, as lists."""
    torch.manual_seed(2)
    output = model.train()(source, padding, classification_head_name=HEAD)[0]
    loss = F.cross_entropy(output, torch.arange(len(source)) % output.size(1))
    return [loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]


@each_case
def test_every_parameter_gets_a_gradient(arch, given):
    model = build_tiny(arch, **given) if arch not in BASELINES else build(arch, width=16, blocks=2)
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients(model, *draw(1)))


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize(
    ("arch", "off"),
    [("ea_dc_transformer", {"ea_alpha": 0.0, "ea_beta": 0.0}), ("pa_dc_transformer", {"pa_alpha": 0.0})],
)
def test_with_the_mechanism_off_it_is_dc_transformer_to_the_last_bit(arch, off, share):
    plain, ours = (
        build_tiny(arch, attention_share=share, dropout=0.1, attention_dropout=dropout, **given)
        for arch, given, dropout in (("dc_transformer", {}, 0.1), (arch, off, 0.1))
    )
    assert list(plain.state_dict()) == list(ours.state_dict())
    assert torch.equal(classes(plain, *draw(1)), classes(ours, *draw(1)))
    assert all(map(torch.equal, gradients(plain, *draw(1)), gradients(ours, *draw(1))))


def test_without_attention_or_convolution_there_are_no_parameters_of_it():
    shares = {share: build_tiny("dc_transformer", attention_share=share) for share in (0.0, 0.25, 1.0)}
    assert not [name for name, _ in shares[0.0].named_parameters() if "attn" in name]
    assert not [name for name, _ in shares[1.0].named_parameters() if "dilated" in name]
    layer = shares[0.25].encoder.layers[0]
    assert layer.self_attn.q_proj.weight.shape == layer.self_attn.v_proj.weight.shape == (4, 16)
    assert (layer.self_attn.out_proj.weight.shape, layer.dilated.conv.weight.shape) == ((4, 4), (12, 16, 3))
    assert build("dilated_cnn").args.attention_share == 0 and build("time_series_transformer").args.attention_share == 1


def changed_later(series, step):
    return torch.cat([series[:, :step], series[:, step:].flip(2) + 1], dim=1)


@pytest.mark.parametrize("causal", [True, False])
def test_causal_convolutions_read_no_later_step(causal):
    """A model of convolutions alone, up to the read-out, which reads all steps."""
    model = build_tiny("dilated_cnn", attention_share=0.0, causal_conv=causal)
    source, padding = draw(1, (LONGEST, LONGEST))
    expected = represent(model, source, padding)
    leaks = [
        (represent(model, changed_later(source, step), padding)[:, :step] - expected[:, :step]).abs().max() > 1e-5
        for step in range(1, LONGEST)
    ]
    assert not any(leaks) if causal else all(leaks)


def test_each_layer_of_a_causal_model_convolves_no_later_step():
    for layer in build_tiny("ea_dc_transformer", causal_conv=True).encoder.layers:
        x = torch.randn(LONGEST, 1, 16, requires_grad=True)
        for step, output in enumerate(layer.dilated(x, AttentionMasks())):
            (gradient,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
            assert not gradient[step + 1 :].any() and gradient[step].all()


def test_dilation_doubles_from_layer_to_layer_up_to_the_longest_series():
    model = build("ea_dc_transformer", description=describe(longest=20))
    assert [layer.dilated.conv.dilation[0] for layer in model.encoder.layers] == [1, 2, 4, 8, 16, 20]
    model = build("ea_dc_transformer", description=describe(longest=20), dilation_base=1)
    assert {layer.dilated.conv.dilation for layer in model.encoder.layers} == {(1,)}


def test_a_dilation_beyond_the_longest_series_changes_nothing():
    """Whichever it is, a neighbour so far away is zero."""
    x, output = torch.randn(LONGEST, 2, 4), []
    for dilation in (LONGEST, 3 * LONGEST):
        torch.manual_seed(1)
        output.append(TokenConvolution(3, 4, dilation)(x, AttentionMasks()))
    torch.testing.assert_close(*output)


def test_batch_norm_of_equal_lengths_is_torchs():
    x, ours, torchs = torch.randn(5, 3, 4), StepNorm(4), torch.nn.BatchNorm1d(4)
    expected = torchs(x.permute(1, 2, 0)).permute(2, 0, 1)
    padded = torch.cat([x, torch.full((2, 3, 4), 9.0)])
    mask = (torch.arange(7) >= 5).repeat(3, 1)
    torch.testing.assert_close(ours(padded, mask)[:5], expected)
    torch.testing.assert_close(ours.running_var, torchs.running_var)


@each_case
def test_a_single_step_can_be_learned(arch, given):
    """Batch norm, which knows no variance of it, takes its running statistics; they stay what they are."""
    model, (source, padding) = build_tiny(arch, **given), draw(1)
    before = copy.deepcopy(dict(model.named_buffers()))
    expected = classes(model, source[:1, :1], padding[:1, :1])
    output = model.train()(source[:1, :1], padding[:1, :1], classification_head_name=HEAD)[0]
    torch.testing.assert_close(output, expected)
    output.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    torch.testing.assert_close(dict(model.named_buffers()), before)


@pytest.mark.parametrize("arch", BASELINES)
def test_baselines_learn_under_autocast(arch):
    model, (source, padding) = build_tiny(arch), draw(1)
    expected = classes(model, source, padding)
    with torch.autocast("cpu", torch.bfloat16):
        output = model.train()(source, padding, classification_head_name=HEAD)[0]
        torch.testing.assert_close(classes(model.eval(), source, padding).float(), expected, rtol=0.1, atol=0.1)
    output.square().sum().backward()


@native_only
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_kernels_agree_with_pytorch(monkeypatch, share):
    model, found = build_tiny("ea_dc_transformer", attention_share=share), []
    for backend in ("native", "reference"):
        monkeypatch.setattr(dispatch, "backend", backend)
        found.append(gradients(copy.deepcopy(model), *draw(2)))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)


def test_maps_are_recorded_by_layer():
    model, (source, padding) = build_tiny("ea_dc_transformer"), draw(1)
    expected = represent(model, source, padding)
    with recording(model) as records:
        assert_close(represent(model, source, padding)[~padding], expected[~padding], 1e-4)
    (maps,) = by_layer(records).values()
    assert len(maps) == len(model.encoder.layers)
    for record in maps:
        assert not record["probabilities"].masked_select(padding[:, None, None]).any()
        torch.testing.assert_close(record["probabilities"].sum(-1), torch.ones(len(source), 2, LONGEST))


def test_values_are_read_out_of_each_step_and_a_task_takes_the_representation_of_another():
    pretrained = build_tiny("dc_transformer", head=False)
    pretrained.register_value_head()
    pretrained.eval()
    values = pretrained(*draw(1))[0]
    head = pretrained.value_head
    assert_close(values, represent(pretrained, *draw(1)) @ head.weight.T + head.bias, 1e-5)
    tuned = build_tiny("ea_dc_transformer", seed=2)
    before = tuned.classification_heads[HEAD].weight.clone()
    tuned.load_state_dict(pretrained.state_dict())
    assert torch.equal(tuned.classification_heads[HEAD].weight, before)
    weights = [model.encoder.layers[1].self_attn.q_proj.weight for model in (tuned, pretrained)]
    assert torch.equal(*weights)
    with pytest.raises(UserError, match=r"^the checkpoint does not fit the model: encoder.project_in.weight is 16 x 3"):
        build_tiny("ea_dc_transformer", description=describe(channels=5)).load_state_dict(pretrained.state_dict())


REFUSED = [
    ({"attention_share": 0.3}, "--attention-share 0.3 of --width 16 is 4.8 channels of attention, which --encoder-att"),
    ({"encoder_attention_heads": 3}, "--attention-share 0.25 of --width 16 is 4 channels of attention, which --enc"),
    ({"attention_share": 1.5}, "--attention-share must be a number from 0 to 1, not 1.5"),
    ({"blocks": 0}, "--blocks must be a whole number from 1 to 1,000, not 0"),
    ({"decoder_skip": True}, "--decoder-skip is a flag of decoders"),
    ({"conv_projections": "q"}, "--conv-projections needs as many input as output channels"),
    (
        {"synthesizer": "random", "synthesizer_length": 8},
        "the longest series has 9 steps, and --synthesizer-length",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=lambda part: str(part)[:30])
def test_a_bad_option_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        build_tiny("ea_dc_transformer", **given)


IDLE = [
    ("ea_dc_transformer", {"attention_share": 0.0}, "--attention-share 0 leaves no attention: use --arch dilated_cnn"),
    ("dilated_cnn", {"relative_positions": "shaw"}, "--attention-share 0 .* for --relative-positions to act on"),
    ("dilated_cnn", {"depthwise_conv": True}, "--attention-share 0 .* for --depthwise-conv to act on"),
    ("time_series_transformer", {"causal_conv": True}, "--attention-share 1 .* for --causal-conv to act on"),
    (
        "ea_dc_transformer",
        {"attention_share": 1.0, "dilation_base": 5},
        "--attention-share 1 .* for --dilation-base",
    ),
]


@pytest.mark.parametrize(("arch", "given", "sentence"), IDLE, ids=lambda part: str(part)[:30])
def test_a_flag_that_nothing_acts_on_is_refused(arch, given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        build_tiny(arch, **WITHOUT.get(arch, {}), **given)


def test_a_model_of_series_is_not_for_words():
    args = argparse.Namespace(arch="time_series_lstm")
    with pytest.raises(UserError, match=r"^--arch time_series_lstm is for --task time_series_prediction"):
        ARCH_MODEL_REGISTRY["time_series_lstm"].build_model(args, object())


def test_defaults_are_the_papers_best_on_uwave_and_every_flag_is_in_the_help():
    model = build("ea_dc_transformer")
    assert DCTransformerOptions.from_namespace(model.args) == DCTransformerOptions(3, 64, 0.1, 0.25, 8, 0.0, 256, 2)
    assert (model.args.ea_alpha, model.args.ea_beta, model.args.ea_kernel_size) == (0.5, 0.3, 3)
    parser = argparse.ArgumentParser()
    ARCH_MODEL_REGISTRY["ea_dc_transformer"].add_args(parser)
    assert all(flag_of(opt.name) in parser.format_help() for opt in fields(DCTransformerOptions))


def test_each_mechanism_that_brings_no_branch_has_a_model():
    without = {name for name, family in FAMILIES.items() if family.model("dc_transformer") not in ARCH_MODEL_REGISTRY}
    assert without == {"conv_transformer", "pa_conv_transformer", "lite_transformer"}
