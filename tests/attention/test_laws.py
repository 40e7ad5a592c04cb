"""The laws of evolving attention hold for every combination of switches."""

import dataclasses
from functools import cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.kernels.window import Window
from laws import FURTHER_LAWS, LAWS, assert_causal, assert_decodes_stepwise, scores
from tiny import COMBINATIONS, KERNELS, SKIPS, SWITCHES, build_loud, random_tokens

# Every fifth, with each kernel and each switch on and off, and the others where there is time.
SOME_COMBINATIONS = [
    pytest.param(options, marks=[pytest.mark.slow] if index % 5 else []) for index, options in enumerate(COMBINATIONS)
]


def name(options):
    return "-".join([f"kernel{options['ea_kernel_size']}", *(switch for switch in SWITCHES if options[switch])])


@cache
def loud_model(options, loudness=1.0, dtype=torch.float32):
    return build_loud(loudness=loudness, **dict(options)).to(dtype)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("options", COMBINATIONS, ids=name)
def test_law_holds(law, options):
    """The sentences differ from one combination to the next."""
    law(loud_model(tuple(options.items())), seed=COMBINATIONS.index(options))


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("options", COMBINATIONS, ids=name)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_law_holds_for_any_sentences(law, options, seed):
    law(loud_model(tuple(options.items())), seed)


@pytest.mark.parametrize("law", FURTHER_LAWS, ids=lambda law: law.__name__)
@given(options=st.sampled_from(COMBINATIONS), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_further_law_holds(law, options, seed):
    law(loud_model(tuple(options.items())), seed)


@pytest.mark.parametrize("options", SOME_COMBINATIONS, ids=name)
def test_laws_hold_in_bfloat16(options):
    """Quieter, because rounding grows with the convolutions; a change of a later word still shows nowhere."""
    model = loud_model(tuple(options.items()), loudness=0.2, dtype=torch.bfloat16)
    for law in LAWS:
        law(model, seed=1, tolerance=1e-5 if law is assert_causal else 0.1)


def break_cross_window(model):
    """Shifts the encoder-decoder window along the source axis instead of the target axis."""
    for layer in model.decoder.layers:
        attention = layer.encoder_attn
        shifted = Window(left=2, right=0, above=1, below=1)
        attention.evolution = dataclasses.replace(attention.evolution, window=shifted)
        attention.fused_logits = dataclasses.replace(attention.fused, window=shifted)
    return model


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("law", [assert_causal, assert_decodes_stepwise], ids=lambda law: law.__name__)
def test_laws_notice_a_cross_window_shifted_along_the_source(law, kernel):
    model = break_cross_window(build_loud(ea_kernel_size=kernel))
    with pytest.raises((AssertionError, RuntimeError)):
        for seed in range(10):
            law(model, seed)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_tap_is_loud(kernel):
    """The laws could not fail if a tap hardly mattered."""
    model = build_loud(ea_kernel_size=kernel)
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 9), random_tokens(generator, 3, 9)
    loud = scores(model, source, target)
    attentions = [model.encoder.layers[0].self_attn, model.decoder.layers[0].self_attn]
    attentions.append(model.decoder.layers[0].encoder_attn)
    for attention in attentions:
        for row, column in product(range(kernel), repeat=2):
            with torch.no_grad():
                tap = attention.conv.weight[:, :, row, column].clone()
                attention.conv.weight[:, :, row, column] = 0
                assert (scores(model, source, target) - loud).abs().max() > 1e-3
                attention.conv.weight[:, :, row, column] = tap


@pytest.mark.parametrize("kernel", KERNELS)
def test_beam_may_share_the_keys_of_its_sentence(kernel):
    """With fairseq's set_beam_size keys belong to sentences, while the remembered rows belong to hypotheses."""
    model = build_loud(ea_kernel_size=kernel, **SKIPS)
    model.decoder.set_beam_size(3)
    assert_decodes_stepwise(model, seed=7, beam=3)
