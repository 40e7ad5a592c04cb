"""Terms of pixels equal their loops, attention over pixels can be any convolution, and bad flags are refused."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import oracles_images  # noqa: F401  the terms' loops
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.attention.pixels import PixelAttention
from ea_fairseq.errors import UserError
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.terms.image_positions import IMAGE_POSITIONS
from encoders import build as build_encoder
from images import build as build_image
from images import build_tiny, describe
from loops import TERMS
from tiny import TINY
from tiny import build as build_translation

HARD = 92**0.5  # a^2 / 2 = 46: CONV-SA needs this for probabilities that float32 cannot tell from 0 and 1


@torch.no_grad()
@pytest.mark.parametrize("grid", [Grid(3, 4), Grid(4, 2, leading=1), Grid(1, 3, leading=2)], ids=str)
@pytest.mark.parametrize("name", IMAGE_POSITIONS)
def test_a_term_equals_its_loop(name, grid):
    """In float64; where a query or a key is no pixel, it is 0."""
    torch.manual_seed(1)
    heads, width = 2, 3
    term = IMAGE_POSITIONS[name](LayerContext("encoder", 0, {}, grid), heads * width, heads).double()
    for parameter in term.parameters():
        parameter.normal_()
    projected = dict(zip("qkv", torch.randn(3, heads, grid.tokens, width).double(), strict=True))
    inputs = SimpleNamespace(scale=width**-0.5, **{part: x.unsqueeze(0) for part, x in projected.items()})
    found = term(inputs).expand(1, heads, -1, -1)[0]
    assert found.shape[1:] == (grid.tokens, grid.tokens)
    assert not found[:, : grid.leading].any() and not found[:, :, : grid.leading].any()
    for head in range(heads):
        for t in range(grid.tokens):
            for s in range(grid.tokens):
                expected = TERMS[type(term).__name__](term, SimpleNamespace(projected=projected), head, t, s)
                assert found[head, t, s].item() == pytest.approx(float(expected), abs=1e-12)


def test_layers_share_the_embeddings_of_distances_if_asked_to():
    def embeddings(positions):
        model = build_tiny("conv_image_small", relative_positions=positions)
        return [layer.self_attn.mechanism.terms[0].embeddings for layer in model.encoder.layers]

    first, second = embeddings("learned_image_shared")
    assert first is second
    first, second = embeddings("learned_image")
    assert first is not second


@pytest.mark.parametrize("name", ["quadratic_image", "quadratic_image_general"])
def test_scores_far_away_are_finite_in_half_precision(name):
    term = IMAGE_POSITIONS[name](LayerContext("encoder", 0, {}, Grid(1, 600)), 4, 2)
    scores = term(SimpleNamespace(v=torch.zeros(1, dtype=torch.float16)))
    assert scores.dtype is torch.float16 and scores.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("term", ["quadratic_image", "quadratic_image_general"])
@pytest.mark.parametrize("kind", [Attention, EvolvingAttention])
def test_nine_hard_heads_are_a_convolution_of_nine_taps(term, kind):
    """CONV-SA theorem 1: equal where the kernel stays within the image.

    Evolving attention's logits are those scores, too, without its convolution and in the first layer.
    """
    torch.manual_seed(1)
    width, rows, columns = 5, 6, 7
    args = SimpleNamespace(relative_positions=term, no_content_scores=True, attention_dropout=0.0, ea_start="plain")
    context = LayerContext("encoder", 0, {}, Grid(rows, columns))
    attention = PixelAttention(kind, args, context, width, heads=9)
    (positions,) = attention.mechanism.terms
    positions.centre.copy_(torch.cartesian_prod(*[torch.arange(-1.0, 2.0)] * 2))
    if term == "quadratic_image":
        positions.sharpness.fill_(HARD)
    else:
        positions.root.copy_(HARD * torch.linalg.qr(torch.randn(9, 2, 2))[0])  # turned, which changes no distance
    attention.out_proj.weight.copy_(torch.eye(width))
    attention.out_proj.bias.zero_()
    weight, bias = torch.randn(width, width, 3, 3) / width, torch.randn(width)
    attention.weight.copy_(weight.permute(2, 3, 1, 0).flatten(0, 1))  # of head h, what tap h does
    attention.bias.copy_(bias)
    image = torch.randn(2, width, rows, columns)
    found = attention(image.flatten(2).permute(2, 0, 1))[0].permute(1, 2, 0).unflatten(2, (rows, columns))
    expected = F.conv2d(image, weight, bias, padding=1)
    inner = (..., slice(1, -1), slice(1, -1))
    torch.testing.assert_close(found[inner], expected[inner], rtol=0, atol=1e-5)
    replicated = F.conv2d(F.pad(image, (1, 1, 1, 1), "replicate"), weight, bias)
    torch.testing.assert_close(found, replicated, rtol=0, atol=1e-5)
    assert (found - expected)[..., 0, :].abs().max() > 1e-2  # where a convolution reads zeros


REFUSED = [
    ("vit_tiny", None, {"patch_size": 4}, "--patch-size 4 does not divide images of 4 x 6 pixels"),
    ("conv_image_small", None, {"patch_size": 4}, "--patch-size 4 does not divide images of 4 x 6 pixels"),
    ("vit_tiny", None, {"encoder_attention_heads": 3}, "--encoder-attention-heads 3 does not divide --encoder-embed"),
    ("vit_tiny", None, {"vit_pool": "max"}, "--vit-pool must be class or mean, not 'max'"),
    (
        "vit_tiny",
        None,
        {"synthesizer": "random", "synthesizer_length": 6},
        "--synthesizer-length is 6, but .* 7 tok",
    ),
    (
        "aa_resnet_20",
        None,
        {"synthesizer": "dense", "synthesizer_length": 8},
        "--synthesizer-length is 8, but .* 12",
    ),
    (
        "conv_image_small",
        None,
        {"synthesizer": "dense", "no_content_scores": False, "synthesizer_length": 5},
        "--synthesizer-length is 5, but an image has 6 tokens",
    ),
    ("aa_resnet_20", "ea_transformer", {"augment": "none"}, "--augment none leaves no attention: use --arch resnet_34"),
    ("aa_resnet_20", None, {"augment": "none"}, "--augment none leaves no attention for --relative-positions to act"),
    ("conv_transformer_image", "ea_transformer", {"attention_stages": 0}, "--attention-stages 0 .* --arch cnn_image"),
    ("conv_transformer_image", None, {"encoder_attention_heads": 3}, "--encoder-attention-heads 3 does not divide 16"),
    ("conv_transformer_image", None, {"stage_width": 6}, "--stage-width must be a multiple of 4, not 6"),
    ("aa_resnet_20", None, {"augment": "all"}, "--augment must be one of none, first, both, not 'all'"),
    ("aa_resnet_20", None, {"resnet_depth": "18"}, "--resnet-depth must be one of 20, 34, 50, 101, 152, not '18'"),
    (
        "aa_resnet_20",
        None,
        {"encoder_attention_heads": 32},
        "--encoder-attention-heads 32 are too many: attention takes all 32",
    ),
    ("aa_resnet_20", None, {"conv_projections": "q"}, "--conv-projections needs as many input as output channels"),
    ("conv_image_small", None, {"pruned_heads": "1"}, "--pruned-heads must have 2 whole numbers, one for each layer"),
    ("conv_image_small", None, {"pruned_heads": "1,x"}, "--pruned-heads must have 2 whole numbers, one for each layer"),
    ("conv_image_small", None, {"pruned_heads": "0,3"}, "--pruned-heads must leave each layer at least one of 3 heads"),
    (
        "conv_image_small",
        None,
        {"depthwise_conv": True},
        "attention as convolution leaves nothing for --depthwise",
    ),
    ("conv_image_small", None, {"conv_projections": "v"}, "attention as convolution leaves nothing for --conv-projec"),
    (
        "conv_image_small",
        None,
        {"relative_positions": "shaw", "shaw_values": True},
        "--shaw-values changes values, and the heads of this model read tokens as they are",
    ),
    ("conv_image_small", "value_residual", {}, "value residual changes values, and the heads of this model read tok"),
    ("vit_tiny", "ea_transformer", {"decoder_skip": True}, "--decoder-skip is a flag of decoders"),
    ("vit_tiny", None, {"scale_logits": True}, "--scale-logits is a flag of decoders"),
    ("vit_tiny", None, {"start_with_padding": True}, "--start-with-padding is a flag of decoders"),
    ("aa_resnet_20", "ea_transformer", {"dropout": 0.1}, "residual networks have no dropout for --dropout to act on"),
]


@pytest.mark.parametrize(("base", "family", "given", "sentence"), REFUSED, ids=lambda part: str(part)[:30])
def test_a_bad_option_is_refused_in_one_sentence(base, family, given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}[^\n]*$"):
        build_tiny(base, family, **given)


@pytest.mark.parametrize(("name", "value"), [("attention_dropout", 0.1), ("encoder_attention_heads", 2)])
@pytest.mark.parametrize("arch", ["resnet_20", "cnn_image"])
def test_flags_of_attention_are_refused_in_models_without_any(arch, name, value):
    with pytest.raises(UserError, match=rf"leaves no attention for {flag_of(name)} to act on$"):
        build_image(arch, describe(32), **{name: value})


def test_shaws_values_are_refused_where_keys_are_wider_than_values():
    with pytest.raises(UserError, match=r"^--shaw-values adds embeddings as wide as keys to values, which have"):
        build_image("aa_resnet_34", describe(64), relative_positions="shaw", shaw_values=True)
    build_tiny("aa_resnet_20", relative_positions="shaw", shaw_values=True)  # whose keys are as wide


def test_images_that_are_too_small_are_refused():
    with pytest.raises(UserError, match=r"^the images are too small for attention in this network: take one of"):
        build_image("aa_resnet_34", describe(16))
    with pytest.raises(UserError, match=r"^the images are too small"):
        build_image("aa_resnet_20", describe(16, 4))


@pytest.mark.parametrize("name", IMAGE_POSITIONS)
def test_sentences_have_no_pixels(name):
    sentence = f"^--relative-positions {name} is for models of images, such as vit$"
    with pytest.raises(UserError, match=sentence):
        build_translation(**TINY, relative_positions=name)
    with pytest.raises(UserError, match=sentence):
        build_encoder("ea_roberta_tiny", relative_positions=name)
