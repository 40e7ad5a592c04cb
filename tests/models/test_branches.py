"""What stands beside self-attention: sizes, half precision, compiled graphs, flags."""

from contextlib import nullcontext

import pytest
import torch
from torch.export import Dim

from ea_fairseq import UserError
from ea_fairseq.analysis.cost import cost
from ea_fairseq.attention.masks import AttentionMasks
from laws import LAWS, draw_padded
from mechanisms import ROWS
from tiny import TINY, build, make_loud, random_tokens

FAMILIES = ("conv_transformer", "pa_conv_transformer", "lite_transformer")
WITHOUT_BRANCHES = 2_482_560  # parameters of Transformer-Lite in the papers' convention


def build_family(family, **options):
    return make_loud(build(family, **{**TINY, **ROWS[family].options, **options}))


def test_half_of_the_encoders_channels_are_convolved():
    """Six layers whose four projections are of 80 instead of 160 channels, and a convolution of 3 words."""
    model = build("conv_transformer_lite")
    attention = model.encoder.layers[0].self_attn
    assert (attention.num_heads, attention.q_proj.weight.shape) == (4, (80, 80))
    assert all(layer.branch is None for layer in model.decoder.layers)
    saved = 4 * (161 * 160 - 81 * 80) - (3 * 80 + 1) * 80
    assert cost(model).parameters == WITHOUT_BRANCHES - 6 * saved


def test_half_of_all_self_attentions_channels_are_convolved_by_kernels_that_grow():
    model = build("lite_transformer_lite")
    for side, heads in ((model.encoder, 4), (model.decoder, 4)):
        assert [layer.self_attn.q_proj.weight.shape for layer in side.layers] == [(80, 80)] * 6
        sizes = [layer.branch.conv.weight.shape for layer in side.layers]
        assert sizes == [(heads, 1, kernel) for kernel in (3, 7, 15, 31, 31, 31)]
    assert all(layer.encoder_attn.q_proj.weight.shape == (160, 160) for layer in model.decoder.layers)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds_with_kernels_longer_than_sentences(law):
    law(build_family("lite_transformer", encoder_layers=7, decoder_layers=7), seed=3)


def test_weights_of_lightweight_convolutions_are_dropped_out():
    branch = build("lite_transformer", **TINY, weight_dropout=1.0).train().encoder.layers[1].branch
    output = branch(torch.randn(5, 3, branch.width), AttentionMasks())
    torch.testing.assert_close(output, branch.linear_out.bias.expand_as(output))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_has_a_gradient(family):
    model = build_family(family).train()
    _, source, target = draw_padded(model, seed=4)
    model(source, None, target)[0][target.ne(model.encoder.padding_idx)].cos().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("autocast", [False, True], ids=["stored", "autocast"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_law_holds_in_bfloat16(family, law, autocast):
    """With attentions that are not loud, so that rounding stays small."""
    model = build(family, **TINY, **ROWS[family].options)
    with torch.autocast("cpu", dtype=torch.bfloat16) if autocast else nullcontext():
        law(model if autocast else model.to(torch.bfloat16), seed=3, tolerance=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_graph_serves_batches_of_every_size(family):
    torch.compiler.reset()
    model, generator = build_family(family).train(), torch.Generator().manual_seed(1)
    batches = [
        (random_tokens(generator, sentences, source), random_tokens(generator, sentences, target))
        for sentences, source, target in [(3, 7, 5), (4, 5, 9), (2, 9, 4), (5, 4, 11)]
    ]
    batches[1][0][0, :2] = batches[1][1][1, -2:] = model.encoder.padding_idx
    expected = [model(source, None, target)[0] for source, target in batches]
    model.compile(backend="eager", fullgraph=True, dynamic=True)
    found = [model(batches[0][0], None, batches[0][1])[0]]
    with torch.compiler.set_stance("fail_on_recompile"):
        found += [model(source, None, target)[0] for source, target in batches[1:]]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_model_scores_as_the_model(family):
    model, generator = build_family(family), torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 7), random_tokens(generator, 3, 5)
    sizes = {0: Dim.AUTO, 1: Dim.AUTO}
    encoder = torch.export.export(model.encoder, (source,), dynamic_shapes=(sizes,), strict=True).module()
    with torch.no_grad():
        encoded = model.encoder(source)
        decoder = torch.export.export(model.decoder, (target, encoded), strict=True).module()
        torch.testing.assert_close(decoder(target, encoded)[0], model(source, None, target)[0], rtol=0, atol=1e-5)
        longer = random_tokens(generator, 2, 11)
        longer[0, :3] = model.encoder.padding_idx
        found, expected = (side(longer)["encoder_out"][0][3:] for side in (encoder, model.encoder))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_that_do_not_divide_half_of_the_width_are_refused_in_a_sentence(family):
    with pytest.raises(UserError, match=r"^--encoder-attention-heads must divide the 4 of --encoder-embed-dim .* 8 is"):
        build(family, **{**TINY, "encoder_attention_heads": 8})
