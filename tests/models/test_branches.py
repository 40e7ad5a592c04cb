"""What stands beside self-attention: sizes and flags."""

import pytest
import torch

from ea_fairseq.analysis.cost import cost
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks
from laws import LAWS
from mechanisms import build_family
from tiny import TINY, build

FAMILIES = ("conv_transformer", "pa_conv_transformer", "lite_transformer")
WITHOUT_BRANCHES = 2_482_560  # parameters of Transformer-Lite in the papers' convention


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
def test_heads_that_do_not_divide_half_of_the_width_are_refused_in_a_sentence(family):
    with pytest.raises(
        UserError,
        match=r"^--encoder-attention-heads must divide the 4 channels .* 8 does not$",
    ):
        build(family, **{**TINY, "encoder_attention_heads": 8})
