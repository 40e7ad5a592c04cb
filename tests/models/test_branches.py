"""What stands beside self-attention: sizes, half precision, compiled graphs, flags."""

from contextlib import nullcontext

import pytest
import torch

from ea_fairseq import UserError
from ea_fairseq.analysis.cost import cost
from laws import LAWS, draw_padded
from mechanisms import ROWS
from tiny import TINY, build, make_loud, random_tokens

FAMILIES = ("conv_transformer", "pa_conv_transformer")
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
def test_heads_that_do_not_divide_half_of_the_width_are_refused_in_a_sentence(family):
    with pytest.raises(UserError, match=r"^--encoder-attention-heads must divide the 4 of --encoder-embed-dim .* 8 is"):
        build(family, **{**TINY, "encoder_attention_heads": 8})
