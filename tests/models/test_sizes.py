"""Models have the sizes that papers and our documentation print, by the architectures and flags for them."""

from itertools import product

import pytest
from fairseq.data import Dictionary
from torch._subclasses.fake_tensor import FakeTensorMode

from ea_fairseq.analysis.cost import cost, encoder_parameters
from encoders import build
from time_series import build as build_series
from time_series import describe
from tiny import build as build_translation

PAPER = {  # parameters exactly as counted; FLOPs as printed in EA, table 5
    "transformer_lite": (2_482_560, 158.31e6),
    "ea_transformer_lite": (2_485_224, 163.46e6),
    "transformer": (44_138_496, 2.68e9),
    "ea_transformer_base": (44_149_008, 2.70e9),
}


@pytest.mark.parametrize("arch", PAPER)
def test_translation_costs_what_the_paper_prints(arch):
    parameters, flops = PAPER[arch]
    counted = cost(build_translation(arch))
    assert (counted.parameters, counted.flops) == (parameters, pytest.approx(flops, rel=0.01))


def words_of(size: int) -> Dictionary:
    """A dictionary of so many symbols, special ones included."""
    words = Dictionary()
    words.pad_to_multiple_(size)
    assert len(words) == size
    return words


def parameters(arch: str, symbols: int, **options) -> tuple[dict[str, int], list[int]]:
    """Sizes of a model's parameters by name, its pooler's included, and those that profile.py says are published.

    No memory is taken for the parameters.
    """
    with FakeTensorMode():
        model = build(arch, words=words_of(symbols), **options)
        model.register_classification_head("pooler", num_classes=2)
        published = encoder_parameters(model)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}, list(published.values())


POSITION_ROWS = 2  # fairseq's positions have one row up to the padding's index, and count from the next
BERTS = {  # arch: symbols, positions, width, rows of token types that fairseq's layout lacks, plain, evolving
    "ea_bert_base": (30_522, 512, 768, 0, 109_482_240, 109_497_936),
    "ea_bert_large": (30_522, 512, 1024, 0, 335_141_888, 335_197_568),
    "ea_bert_mini": (30_522, 512, 384, 0, 22_713_216, 22_721_064),
    "ea_roberta_large": (50_265, 512, 1024, 1, 355_359_744, 355_415_424),
}


@pytest.mark.parametrize(("arch", "evolving"), product(BERTS, [False, True]))
def test_sizes_are_those_of_published_models(arch, evolving):
    """With a pooler, which is the dense layer of a classification head, and without heads.

    BERT has 512 rows of positions and fairseq 514; RoBERTa has 514, and one row of token types that fairseq leaves out.
    """
    symbols, positions, width, types, *expected = BERTS[arch]
    options = {} if evolving else {"ea_alpha": 0.0, "ea_beta": 0.0}
    sizes, (published, _) = parameters(arch, symbols, max_positions=positions, **options)
    own = sum(
        size for name, size in sizes.items() if "lm_head." not in name and ".out_proj" not in name.split("pooler")[-1]
    )
    own += sum(size for name, size in sizes.items() if "self_attn.out_proj" in name)
    surplus = 0 if types else POSITION_ROWS * width
    assert own - surplus + types * width == published == expected[evolving]


NO_POSITIONS = {"no_token_positional_embeddings": True}
COMPOSITE_SMALL = {
    "absolute": ({"lightweight_conv": "none"}, 13_430_708),
    "none": ({"lightweight_conv": "none", **NO_POSITIONS}, 13_414_324),
    "fixed": ({"lightweight_conv": "fixed", **NO_POSITIONS}, 13_415_140),
    "dynamic": ({"lightweight_conv": "dynamic", **NO_POSITIONS}, 13_427_380),
    "composite": ({**NO_POSITIONS}, 13_428_196),
    "composite and key": ({"lightweight_conv": "composite+key", **NO_POSITIONS}, 13_441_252),
    "fixed depthwise": ({"lightweight_conv": "none", "depthwise_conv": True, **NO_POSITIONS}, 13_466_548),
    "depthwise and composite": ({"depthwise_conv": True, **NO_POSITIONS}, 13_480_420),
}
CONVOLVED = {  # BERT-small by --conv-projections, without and with composite attention, as printed (COMP table 3)
    "q,k": ("13.53M", "13.54M"),
    "v": ("13.47M", "13.48M"),
    "q,k,v": ("13.58M", "13.59M"),
}
COMPOSITE_BASE = {
    "absolute": ({"lightweight_conv": "none"}, 108_821_044),
    "fixed": ({"lightweight_conv": "fixed", **NO_POSITIONS}, 108_725_188),
    "dynamic": ({"lightweight_conv": "dynamic", **NO_POSITIONS}, 108_735_796),
    "composite": ({**NO_POSITIONS}, 108_738_244),
}


@pytest.mark.parametrize(
    ("size", "given", "expected"),
    [
        *(("small", *row) for row in COMPOSITE_SMALL.values()),
        *(("base", *row) for row in COMPOSITE_BASE.values()),
    ],
)
def test_sizes_are_those_of_composite_attentions_berts(size, given, expected):
    narrow = 128 if size == "small" else 768
    sizes, (_, published) = parameters(
        f"composite_roberta_{size}", 30_004, embedding_size=narrow, max_positions=128, **given
    )
    found = sum(size for name, size in sizes.items() if "pooler" not in name)
    surplus = 0 if "no_token_positional_embeddings" in given else POSITION_ROWS * narrow
    assert found - surplus == published == expected


@pytest.mark.parametrize(("convolved", "terms"), product(CONVOLVED, ("none", "composite")))
def test_sizes_with_convolved_projections_are_those_printed(convolved, terms):
    """Of 30,005 symbols: of the 30,004 above, ``q,k`` alone would have 13,524,916 parameters, 84 too few."""
    sizes, (_, published) = parameters(
        "composite_roberta_small",
        30_005,
        embedding_size=128,
        max_positions=128,
        lightweight_conv=terms,
        conv_projections=convolved,
        **NO_POSITIONS,
    )
    assert sum(size for name, size in sizes.items() if "pooler" not in name) == published
    assert f"{published / 1e6:.2f}M" == CONVOLVED[convolved][terms == "composite"]


LAYER = 3 * (64 + 1) * 16 + (16 + 1) * 16 + (3 * 64 + 1) * 48 + 2 * 64 + (64 + 1) * 256 + (256 + 1) * 64


@pytest.mark.parametrize(("channels", "longest", "outputs"), [(12, 29, 9), (3, 152, 26)], ids=["vowels", "handwriting"])
def test_sizes_of_models_of_time_series(channels, longest, outputs):
    """Attention of 16 channels and a convolution to 48, which read 64; six layers, three blocks."""
    description = describe(channels, longest, tuple(map(str, range(outputs))))
    plain, evolving = (
        sum(parameter.numel() for parameter in build_series(arch, description=description).parameters())
        for arch in ("dc_transformer", "ea_dc_transformer")
    )
    assert plain == (channels + 1 + longest) * 64 + (longest * 64 + 1) * outputs + 6 * LAYER + 3 * 2 * 64
    assert evolving - plain == 6 * (8 * 8 * 9 + 8)
