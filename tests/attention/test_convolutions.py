"""Convolutions inside self-attention, under every mechanism."""

import pytest
import torch
from fairseq.modules.quant_noise import quant_noise
from torch.export import Dim

from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.convolutions import separable
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from laws import FURTHER_LAWS, LAWS, assert_heads_permute, draw_padded, scores
from mechanisms import ROWS
from model_checks import (
    assert_equals_loops,
    assert_every_parameter_learns,
    assert_kernels_agree,
    assert_torch_counts_the_same,
)
from tiny import OFF, TINY, build, make_loud, random_tokens

OPTIONS = {
    "depthwise": {"depthwise_conv": True},
    "queries": {"conv_projections": "q"},
    "values": {"conv_projections": "v"},
    "all": {"depthwise_conv": True, "conv_projections": "q,k,v"},
}
NONE = {"depthwise_conv": False, "conv_projections": "none"}
ONLY_VALUES = ("synthesizer", "quadratic_transformer")  # project these, and no queries and keys
COMPILED = ("ea_transformer", "value_residual")
COUNTED = ("ea_transformer", "value_residual", "lime", "synthesizer")  # which project in different ways
PAD = 1
OF_PLACE = [law for law in LAWS + FURTHER_LAWS if law is not assert_heads_permute]  # half of the heads are convolved
each_family = pytest.mark.parametrize("family", ROWS)
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build_family(family="ea_transformer", **options):
    read = {"conv_projections": "v"} if family in ONLY_VALUES else {}
    return make_loud(build(family, **{**TINY, **ROWS[family].options, **OPTIONS["all"], **read, **options}))


@each_family
def test_a_model_equals_loops(family):
    assert_equals_loops(build_family(family), ROWS[family].oracle)


@each_option
def test_each_flag_by_itself_equals_loops(options):
    assert_equals_loops(build_family(**{**NONE, **options}), ROWS["ea_transformer"].oracle)


@pytest.mark.parametrize("law", OF_PLACE, ids=lambda law: law.__name__)
@each_family
def test_law_holds(family, law):
    law(build_family(family), seed=3)


@pytest.mark.parametrize("law", OF_PLACE, ids=lambda law: law.__name__)
@each_option
def test_law_holds_of_each_flag_without_absolute_positions(options, law):
    law(build_family(**{**NONE, **options}, no_token_positional_embeddings=True), seed=5)


@pytest.mark.parametrize("family", COUNTED)
def test_torchs_own_counter_of_flops_agrees(family, monkeypatch):
    monkeypatch.setattr(dispatch, "backend", "reference")
    assert_torch_counts_the_same(build_family(family))


def test_convolutions_have_as_many_parameters_as_those_of_the_paper():
    """BERT-small: 12 layers of width 256 and 4 heads."""
    counts = {
        name: sum(
            parameter.numel()
            for layer in range(12)
            for parameter in ConvolutionOptions(**options)
            .build(LayerContext("encoder", layer), 256, 4, 256)
            .parameters()
        )
        for name, options in {**OPTIONS, "queries and keys": {"conv_projections": "k,q"}}.items()
    }
    assert counts["depthwise"] == 52_224
    assert counts["queries"] == counts["values"] == 55_296
    assert counts["queries and keys"] == 110_592


@each_option
def test_kernels_compute_what_the_equations_do(options, monkeypatch):
    assert_kernels_agree(build_family(**{**NONE, **options}), "auto", monkeypatch)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("autocast", [False, True], ids=["stored", "autocast"])
def test_law_holds_in_bfloat16(autocast, law):
    """With attentions that are not loud, so that rounding stays small; and every parameter has a gradient."""
    model = build("ea_transformer", **TINY, **OPTIONS["all"])
    model = model if autocast else model.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        law(model, seed=3, tolerance=0.1)
        assert_every_parameter_learns(model)


@pytest.mark.slow
@pytest.mark.parametrize("family", COMPILED)
def test_one_compiled_graph_serves_every_size(family):
    torch.compiler.reset()
    plain, compiled = build_family(family).train(), build_family(family).train()
    compiled.compile(backend="eager", fullgraph=True, dynamic=True)
    for seed in (2, 4):
        _, source, target = draw_padded(plain, seed)
        torch.testing.assert_close(compiled(source, None, target)[0], plain(source, None, target)[0])


@pytest.mark.slow
def test_an_exported_encoder_encodes_as_the_model():
    model, generator = build_family(), torch.Generator().manual_seed(1)
    source, longer = random_tokens(generator, 3, 7), random_tokens(generator, 2, 11)
    longer[0, :3] = PAD
    encoder = torch.export.export(model.encoder, (source,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},), strict=True)
    with torch.no_grad():
        found, expected = (side(longer)["encoder_out"][0][3:] for side in (encoder.module(), model.encoder))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["ea_transformer", "pa_transformer"])
def test_convolutions_act_where_the_mechanism_is_off(family):
    off = {"pa_alpha": 0.0} if family == "pa_transformer" else OFF
    model, plain = (build(family, **TINY, **off, **options) for options in (OPTIONS["all"], {}))
    convolutions = {name: tensor for name, tensor in model.state_dict().items() if ".convolutions." in name}
    model.load_state_dict({**plain.state_dict(), **convolutions})
    _, source, target = draw_padded(model, seed=3)
    assert not torch.allclose(scores(model, source, target), scores(plain, source, target))
    build(family, **TINY, **off, **OPTIONS["all"]).load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError):
        build("transformer", **TINY).load_state_dict(model.state_dict())


def test_a_checkpoint_of_before_the_biases_loads_and_computes_the_same():
    model, loaded = (build("composite_transformer", seed, **TINY, **OPTIONS["all"]) for seed in (1, 2))
    biases = [name for name in model.state_dict() if ".convolutions." in name and name.endswith(".bias")]
    assert len(biases) == 2 * 2 * 3  # of both stacks' layers, before queries, keys and values
    with torch.no_grad():
        for name in biases:
            model.get_parameter(name).zero_()
    loaded.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name not in biases})
    _, source, target = draw_padded(model, seed=3)
    assert torch.equal(scores(loaded, source, target), scores(model, source, target))


def test_a_projection_with_a_hook_is_called_as_a_whole():
    """Such as one with fairseq's quantization noise."""
    layer, (convolved, x) = torch.nn.Linear(4, 6), torch.randn(2, 5, 3, 4)
    expected = separable(layer, convolved, x)
    torch.testing.assert_close(separable(quant_noise(layer, p=0.5, block_size=2).eval(), convolved, x), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conv_projections": "q,w"}, "--conv-projections must be none or some of q,k,v, not 'q,w'"),
        ({"conv_projections": "q,q"}, "--conv-projections must be none or some of q,k,v, not 'q,q'"),
        (
            {"conv_projections": "v", "encoder_attention_heads": 1},
            "--conv-projections takes half of the heads, and --encoder-attention-heads 1 is odd",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused_in_a_sentence(options, message):
    with pytest.raises(UserError) as refusal:
        build("ea_transformer", **{**TINY, **options})
    assert str(refusal.value) == message


def test_a_projection_that_nothing_reads_cannot_be_convolved():
    with pytest.raises(UserError, match=r"^--conv-projections must not have k, which these attentions do not read$"):
        build("synthesizer", **TINY, conv_projections="k")
