"""Models of images have the sizes that papers print, to the digit where the papers' own equations give it.

Nothing is computed: tensors have sizes alone. FLOPs of residual networks are printed as twice the
multiply-accumulates, those of vision transformers as multiply-accumulates.
"""

import re
from typing import NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from ea_fairseq.analysis.cost import Pass, image_cost, traced_macs
from ea_fairseq.kernels import dispatch
from images import HEAD, IMAGES, TINY, build, build_tiny, classes, describe, draw
from model_checks import by_our_forward

GIGA = 1e9
PRODUCTS = re.compile(" (linear|matmul|bmm|addmm|_convolution)$")  # the operators that torch counts


class Size(NamedTuple):
    """A model's parameters, and those with evolving attention."""

    arch: str
    options: dict[str, object]
    plain: int
    evolving: int


VITS = [
    Size("vit_base", {"patch_size": 32}, 88_297_192, 88_312_888),
    Size("vit_base", {}, 86_859_496, 86_875_192),
    Size("vit_large", {"patch_size": 32}, 306_632_680, 306_688_360),
    Size("vit_large", {}, 304_715_752, 304_771_432),
]
RESNETS = [
    Size("aa_resnet_34", {}, 20_686_824, 20_702_008),
    Size("aa_resnet_50", {}, 25_809_392, 25_816_984),
    Size("aa_resnet_101", {}, 45_386_728, 45_404_248),
    Size("aa_resnet_152", {}, 61_613_536, 61_640_984),
]
SMALL = [
    Size("vit_tiny", {}, 2_693_578, 2_695_558),
    Size("vit_tiny", {"encoder_embed_dim": 96, "encoder_ffn_embed_dim": 384}, 683_242, 685_222),
    Size("aa_resnet_20", {}, 254_504, 258_008),
    Size("aa_resnet_20", {"augment": "both"}, 232_694, 239_702),
]
PREDICTIVE = {  # PA prints 5.36, 4.92 and 4.92 million, whose other widths it does not say
    "cnn_image": 5_312_074,
    "conv_transformer_image": 4_943_434,
    "pa_conv_transformer_image": 4_944_026,
}
WITHOUT_ATTENTION = {
    "resnet_20": 272_474,
    "resnet_34": 21_797_672,
    "resnet_50": 25_557_032,
    "resnet_101": 44_549_160,
    "resnet_152": 60_192_808,
}
GENERAL = {"relative_positions": "quadratic_image_general"}
CONVOLUTIONAL = [
    ({}, 12_086_844),
    (GENERAL, 12_087_006),
    ({**GENERAL, "pruned_heads": "2,4,1,2,6,0"}, 9_686_916),
    ({"relative_positions": "learned_image"}, 12_278_682),
    ({"relative_positions": "learned_image_shared", "no_content_scores": False}, 29_477_882),
]


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    """torch's counter of FLOPs does not know our operators."""
    monkeypatch.setattr(dispatch, "backend", "reference")


def data(arch: str):
    """ImageNet at the resolution that the papers use, or CIFAR-10."""
    if arch.endswith(("_20", "_tiny")) or "image" in arch:
        return describe(32)
    return describe(384 if "vit" in arch else 224, classes=1000)


def parameters(arch: str, **options) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(arch, data(arch), **options).parameters())


def macs(arch: str, **options) -> float:
    """Billions of multiply-accumulates of one image, in matrix products and convolutions."""
    with FakeTensorMode(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        classes(by_our_forward(build(arch, data(arch), **options)), draw(1, data(arch), images=1))
    return counter.get_total_flops() / 2 / GIGA


@pytest.mark.parametrize("size", [*VITS, *RESNETS, *SMALL], ids=lambda size: f"{size.arch}-{size.options}")
def test_parameters_are_the_papers(size):
    assert parameters(size.arch, **size.options) == size.plain
    assert parameters(f"ea_{size.arch}", **size.options) == size.evolving


@pytest.mark.parametrize(("arch", "expected"), WITHOUT_ATTENTION.items())
def test_parameters_of_residual_networks_are_he_et_als(arch, expected):
    assert parameters(arch) == expected


@pytest.mark.parametrize(("options", "expected"), CONVOLUTIONAL)
def test_parameters_of_attention_as_convolution_are_the_papers(options, expected):
    assert parameters("conv_image", **options) == expected


@pytest.mark.parametrize(("arch", "expected"), PREDICTIVE.items())
def test_parameters_of_convolutions_beside_attention(arch, expected):
    """Convolutions of w channels have 3.25 w^2, a feed-forward network 4 w^2, and w columns for each channel before.

    Half of them by attention takes 0.9375 w^2 off; a predictor is 9 K^2 + K, but in the first layer of a chain.
    """
    assert parameters(arch) == expected


def first_alone(cases):
    """The first is fast; the others are as the first, and larger."""
    first, *others = cases
    return [first, *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]


@pytest.mark.parametrize(
    ("size", "plain", "added", "added_after_the_first"),
    first_alone(
        zip(VITS, (13.04, 55.48, 45.28, 191.07), (0.33, 5.18, 1.16, 18.41), (0.30, 4.75, 1.11, 17.64), strict=True)
    ),
)
def test_vision_transformers_multiply_as_often_as_printed(size, plain, added, added_after_the_first):
    """CEAN prints 13.1, 55.5, 45.3 and 191.2; the convolution of each layer adds 9 K^2 T^2."""
    without, conv = macs(size.arch, **size.options), macs(f"ea_{size.arch}", **size.options)
    after_the_first = macs(f"ea_{size.arch}", **size.options, ea_start="plain")
    assert without == pytest.approx(plain, abs=0.005)
    assert conv - without == pytest.approx(added, abs=0.005)
    assert after_the_first - without == pytest.approx(added_after_the_first, abs=0.005)


@pytest.mark.parametrize(
    ("size", "plain", "added"),
    first_alone(zip(RESNETS, (7.08, 8.43, 16.38, 24.27), (0.85, 0.40, 1.16, 1.91), strict=True)),
)
def test_residual_networks_have_the_printed_flops(size, plain, added):
    """EA prints 7.1, 8.3, 16.1 and 23.8, and adds 0.8, 0.4, 1.1 and 1.9; a chain's first attention has no convolution.

    Deeper networks have 2% more than printed, for no known reason.
    """
    without = 2 * macs(size.arch)
    assert without == pytest.approx(plain, rel=0.004)
    assert 2 * macs(f"ea_{size.arch}", ea_start="plain") - without == pytest.approx(added, abs=0.006)


@pytest.mark.parametrize("base", TINY)
def test_torchs_own_counter_of_flops_agrees(base):
    """With torchprofile, by which costs are reported, as far as torch counts: matrix products and convolutions."""
    model, image = by_our_forward(build_tiny(base, "ea_transformer")), draw(1, IMAGES[base], images=1)
    with FlopCounterMode(display=False) as counter:
        classes(model, image)
    counted = traced_macs(Pass(model, classification_head_name=HEAD), image)
    products = sum(number for name, number in counted.items() if PRODUCTS.search(name))
    assert counter.get_total_flops() == 2 * products
    cost = image_cost(model)
    assert cost.flops == 2 * counted.total() < 2.2 * products
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
