"""What models of time series cost: by formula, built and counted."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from ea_fairseq.analysis.cost import count_parameters
from ea_fairseq.analysis.time_series_cost import count_macs, parts, whole_pass
from ea_fairseq.count import Count
from time_series import BASELINES, MECHANISMS, TERMS, TINY, build, describe, draw

CASES = {
    **{arch: (arch, {**TINY, **MECHANISMS.get(arch, {})}) for arch in ("dc_transformer", *MECHANISMS)},
    "Transformer": ("time_series_transformer", {**TINY, "attention_share": 1.0}),
    "convolutions": ("dilated_cnn", {**TINY, "attention_share": 0.0}),
    "with a term": ("ea_dc_transformer", {**TINY, **TERMS}),
    "heads of full width": ("quadratic_dc_transformer", {**TINY, "full_width_heads": True}),
    "causal": ("ea_dc_transformer", {**TINY, "causal_conv": True}),
    **{arch: (arch, {"width": 16, "blocks": 2}) for arch in BASELINES},
}


def total(model) -> Count:
    return sum((part.count for part in parts(model)), Count())


@pytest.mark.parametrize(("arch", "given"), CASES.values(), ids=CASES)
def test_the_formula_is_what_is_built_and_counted(arch, given):
    model, by_group = build(arch, **given), {}
    for part in parts(model):
        by_group[part.group] = by_group.get(part.group, 0) + part.count.parameters
    if arch not in BASELINES:
        assert {group: size for group, size in by_group.items() if size} == dict(count_parameters(model))
    assert total(model).parameters == sum(parameter.numel() for parameter in model.parameters())
    if arch != "time_series_gru":  # of which torchprofile knows nothing
        assert total(model).macs == sum(count_macs(model).values())


def test_torch_counts_the_products_of_a_gru():
    """In float64, in which recurrent layers are linear ones."""
    model = build("time_series_gru", width=16, blocks=2).double()
    with FlopCounterMode(display=False) as counter:
        whole_pass(model)(draw(1)[0][:1].double())
    assert counter.get_total_flops() == 2 * total(model).macs


def test_values_are_read_out_by_one_linear_layer():
    model = build("ea_dc_transformer", head=False, **TINY)
    model.register_value_head()
    assert total(model).parameters == sum(parameter.numel() for parameter in model.parameters())
    assert total(model).macs == sum(count_macs(model).values())


LAYER = 3 * (64 + 1) * 16 + (16 + 1) * 16 + (3 * 64 + 1) * 48 + 2 * 64 + (64 + 1) * 256 + (256 + 1) * 64


@pytest.mark.parametrize(("channels", "longest", "outputs"), [(12, 29, 9), (3, 152, 26)], ids=["vowels", "handwriting"])
def test_sizes_by_hand(channels, longest, outputs):
    """Attention of 16 channels and a convolution to 48, which read 64; six layers, three blocks."""
    description = describe(channels, longest, tuple(map(str, range(outputs))))
    ends = (channels + 1 + longest) * 64 + (longest * 64 + 1) * outputs
    plain = total(build("dc_transformer", description=description)).parameters
    assert plain == ends + 6 * LAYER + 3 * 2 * 64
    evolving = total(build("ea_dc_transformer", description=description)).parameters
    assert evolving - plain == 6 * (8 * 8 * 9 + 8)
