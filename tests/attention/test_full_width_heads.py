"""Quadratic attention whose heads have as many channels as a word, in all three attentions."""

import pytest
import torch

from ea_fairseq.analysis.cost import cost
from ea_fairseq.errors import UserError
from ea_fairseq.search.support import is_supported, unsupported_reasons
from laws import FURTHER_LAWS, LAWS, assert_heads_permute, draw_padded, scores
from loops import Oracle
from mechanisms import build_family
from model_checks import (
    assert_equals_loops,
    assert_kernels_agree,
    assert_torch_counts_the_same,
    native_only,
)
from terms import convolution
from tiny import TINY, build

FULL = {"full_width_heads": True}
OPTIONS = {
    "as it is": {},
    "another width of the encoder": {"encoder_embed_dim": 6},
    "other terms": {**convolution("composite+key"), "attention_type": "additive", "no_content_scores": False},
    "synthesized": {"synthesizer": "dense", "no_content_scores": False},
    "convolutions": {"depthwise_conv": True, "conv_projections": "v"},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build_full(**options):
    return build_family("quadratic_transformer", **FULL, **options)


@each_option
def test_a_model_equals_loops(options):
    assert_equals_loops(build_full(**options), Oracle())


@pytest.mark.parametrize(
    "law", [law for law in LAWS + FURTHER_LAWS if law is not assert_heads_permute], ids=lambda law: law.__name__
)
@each_option
def test_law_holds(options, law):
    law(build_full(**options), seed=3)


def test_heads_permute():
    assert_heads_permute(build_full(), seed=3)


@each_option
def test_torchs_own_counter_of_flops_agrees(options, monkeypatch):
    model = build_full(**options)
    monkeypatch.setattr("ea_fairseq.kernels.dispatch.backend", "reference")
    assert_torch_counts_the_same(model)


@native_only
@each_option
def test_kernels_compute_what_the_equations_do(options, monkeypatch):
    assert_kernels_agree(build_full(**options), "native", monkeypatch)


def test_every_attention_has_heads_of_full_width():
    """Of Lite size: 12 attentions without queries and keys, and 6 with them, of 4 heads of 160 channels each."""
    model, plain = (build("quadratic_transformer_lite", **options) for options in (FULL, {}))
    layer = model.decoder.layers[0]
    for attention in (model.encoder.layers[0].self_attn, layer.self_attn, layer.encoder_attn):
        assert (attention.head_dim, attention.scaling) == (160, 160**-0.5)
        assert attention.v_proj.weight.shape == (640, 160) and attention.out_proj.weight.shape == (160, 640)
    weights, biases = 480 * 160, 480  # that a projection has more; that of the output has no more biases
    added = 12 * (2 * weights + biases) + 6 * (4 * weights + 3 * biases)
    assert cost(model).parameters == cost(plain).parameters + added == 5_565_216


def test_native_code_leaves_translation_to_pytorch():
    model = build_full()
    assert "native code does not support quadratic attention with these options" in {*unsupported_reasons(model)}
    for known, family in ((False, model), (True, build_family("quadratic_transformer"))):
        assert is_supported(family.decoder.layers[0].encoder_attn) == known


def test_other_checkpoints_are_refused_in_a_sentence():
    for other in (build("quadratic_transformer", **TINY), build("transformer", **TINY)):
        with pytest.raises(UserError, match=r"does not fit the model: .*v_proj.weight is 8 x 8 in the checkpoint"):
            build_full().load_state_dict(other.state_dict())
    model = build_full()
    _, source, target = draw_padded(model, seed=3)
    loaded = build_full(seed=2)
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(scores(loaded, source, target), scores(model, source, target))


def test_projections_take_quantization_noise():
    model = build_full(quant_noise_pq=0.5, quant_noise_pq_block_size=2)
    _, source, target = draw_padded(model, seed=3)
    noisy = model.train()(source, None, target)[0]
    assert noisy.isfinite().all() and not torch.equal(noisy, scores(model.eval(), source, target))
