"""Models that are an encoder alone: fairseq's RoBERTa with a mechanism, and BERT and COMP's encoders in its layout."""

import argparse
import math
from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F
from fairseq.models import ARCH_MODEL_REGISTRY
from torch._subclasses.fake_tensor import FakeTensorMode

from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.attention.registry import FAMILIES, LAYOUTS
from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.errors import UserError
from ea_fairseq.models.encoder_options import EncoderOptions
from ea_fairseq.plain.flags import flag_of
from encoders import LAWS, PAD, TINY, assert_equals_loops, build, build_encoder, draw, features, louder
from laws import assert_close
from mechanisms import ROWS
from model_checks import assert_kernels_agree, each_backend
from tiny import dictionary

OFF = {"ea_transformer": {"ea_alpha": 0.0, "ea_beta": 0.0}, "pa_transformer": {"pa_alpha": 0.0}}
FAIRSEQ_OPTIONS = {
    "as it is": {},
    "dropout": {"dropout": 0.2, "attention_dropout": 0.2, "activation_dropout": 0.2},
    "prenorm": {"encoder_normalize_before": True, "layernorm_embedding": False},
    "relu": {"activation_fn": "relu"},
    "untied": {"untie_weights_roberta": True},
    "layerdrop": {"encoder_layerdrop": 0.5},
    "layers_to_keep": {"encoder_layers_to_keep": "0,2"},
    "no positions": {"no_token_positional_embeddings": True},
    "quant_noise_pq": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "quant_noise_scalar": {"quant_noise_scalar": 0.1},
    "spectral norm": {"spectral_norm_classification_head": True},
    "checkpoint_activations": {"checkpoint_activations": True},
    "offload_activations": {"offload_activations": True},
}
each_family = pytest.mark.parametrize("family", ROWS)


@each_family
def test_an_encoder_equals_loops(family):
    assert_equals_loops(build_encoder(family), ROWS[family].oracle)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@each_family
def test_law_holds(family, law):
    law(build_encoder(family, "bert"), seed=3)


@each_backend
@pytest.mark.parametrize("family", ["ea_transformer", "realformer", "pa_transformer"])
def test_kernels_compute_what_the_equations_do(family, backend, monkeypatch):
    (_, tokens), model = draw(4), build_encoder(family)
    assert_kernels_agree(model, backend, monkeypatch, lambda model: model(tokens)[0][tokens.ne(PAD)].cos().sum(), 1e-3)


@each_family
def test_half_precision_is_near(family):
    model, (_, tokens) = build_encoder(family), draw(2)
    expected, words = features(model, tokens), tokens.ne(PAD)
    with torch.autocast("cpu", torch.bfloat16):
        autocast = features(model, tokens)[words]
    halved = features(model.to(torch.bfloat16), tokens)[words]
    assert halved.dtype is torch.bfloat16
    for found in (autocast, halved):
        assert (found.float() - expected[words]).abs().mean() < 0.1


def train_step(model, head: bool = False):
    """(loss, gradients by parameter) of one step of masked language modeling, or of a classification head's."""
    _, tokens = draw(1)
    torch.manual_seed(5)
    model.train().zero_grad()
    if head:
        loss = model(tokens, classification_head_name="head")[0].cos().sum()
    else:
        masked = tokens.eq(10) | tokens.ne(PAD)
        loss = F.cross_entropy(model(tokens, masked_tokens=masked)[0], tokens[masked])
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("head", [False, True], ids=["language model", "classifier"])
@pytest.mark.parametrize("given", FAIRSEQ_OPTIONS.values(), ids=FAIRSEQ_OPTIONS)
@pytest.mark.parametrize("family", OFF)
def test_with_the_mechanism_off_it_is_fairseqs_roberta_to_the_last_bit(family, given, head):
    plain, ours = (
        build("roberta", **TINY | given),
        build(FAMILIES[family].encoder("roberta"), **TINY | OFF[family] | given),
    )
    for model in (plain, ours):
        torch.manual_seed(3)
        model.register_classification_head("head", num_classes=3)
        louder(model)
    assert list(plain.state_dict()) == list(ours.state_dict())
    assert all(map(torch.equal, plain.state_dict().values(), ours.state_dict().values()))
    _, tokens = draw(2)
    for options in ({}, {"features_only": True}, {"classification_head_name": "head"}, {"return_all_hiddens": True}):
        (found, extra), (expected, of_plain) = (model.eval()(tokens, **options) for model in (ours, plain))
        assert torch.equal(found, expected)
        states = (inner["inner_states"] or [] for inner in (extra, of_plain))
        assert all(torch.equal(*pair) for pair in zip(*states, strict=True))
    (loss, gradients), (expected_loss, expected) = (train_step(model, head) for model in (ours, plain))
    assert loss == expected_loss
    for name, gradient in gradients.items():
        assert (gradient is None) == (expected[name] is None), name
        assert gradient is None or torch.equal(gradient, expected[name]), name


@pytest.mark.parametrize("given", FAIRSEQ_OPTIONS.values(), ids=FAIRSEQ_OPTIONS)
def test_with_evolution_on_an_option_of_fairseq_trains(given):
    loss, gradients = train_step(build_encoder("ea_transformer", **given))
    assert math.isfinite(loss)
    if "encoder_layerdrop" not in given:
        assert all(gradient.isfinite().all() for gradient in gradients.values())


@pytest.mark.parametrize("layout", LAYOUTS)
@each_family
def test_every_parameter_gets_a_gradient(family, layout):
    _, gradients = train_step(build_encoder(family, layout, embedding_size=4))
    assert not [name for name, gradient in gradients.items() if gradient is None]


@pytest.mark.parametrize("option", ["checkpoint_activations", "offload_activations"])
def test_activation_checkpointing_changes_no_gradient(option):
    models = [build_encoder("ea_transformer", **given) for given in ({}, {option: True})]
    assert all(hasattr(layer, "precheckpoint_forward") for layer in models[1].encoder.sentence_encoder.layers)
    expected, found = map(train_step, models)
    for name, gradient in found[1].items():
        torch.testing.assert_close(gradient, expected[1][name], rtol=0, atol=1e-5, msg=name)


@pytest.mark.parametrize("family", ["ea_transformer", pytest.param("composite_transformer", marks=pytest.mark.slow)])
def test_one_compiled_graph_serves_all_lengths(family):
    torch.compiler.reset()
    model = build_encoder(family, "bert")
    expected = [features(model, draw(seed, longest=length)[1]) for seed, length in enumerate((7, 9, 5))]
    model.compile(backend="eager", fullgraph=True, dynamic=True)
    for seed, length in enumerate((7, 9, 5)):
        with torch.compiler.set_stance("fail_on_recompile" if seed else "default"):
            assert_close(features(model, draw(seed, longest=length)[1]), expected[seed], 1e-4)


def test_segments_are_the_sentences_of_a_pair():
    encoder = build_encoder("ea_transformer", "bert").encoder.sentence_encoder
    end, tokens = dictionary().eos(), torch.tensor([[0, 9, 8, 2, 7, 2], [PAD, 0, 2, 2, 7, 2]])
    assert end == 2
    assert encoder.segments(tokens).tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]


@torch.no_grad()
def test_what_goes_into_the_layers_is_berts_sum():
    """Words, positions and segments, a layer norm with BERT's epsilon, and the way from narrower embeddings."""
    model = build_encoder("ea_transformer", "bert", embedding_size=4).double()
    encoder, tokens = model.encoder.sentence_encoder, torch.tensor([[0, 9, 8, 2, 7, 2, 1]])
    words, segments = encoder.embed_tokens.weight[tokens[0]], encoder.segment_embeddings.weight
    total = words + encoder.embed_positions.weight[[2, 3, 4, 5, 6, 7, 1]] + segments[[0, 0, 0, 0, 1, 1, 1]]
    centred = total - total.mean(1, keepdim=True)
    normed = centred / (centred.square().mean(1, keepdim=True) + 1e-12).sqrt()
    found = encoder.forward_embedding(tokens)[0][0]
    torch.testing.assert_close(found, normed @ encoder.embedding_proj.weight.T, rtol=0, atol=1e-12)
    assert {module.eps for module in model.modules() if isinstance(module, torch.nn.LayerNorm)} == {1e-12}


@pytest.mark.parametrize("size", [0, 4])
def test_the_last_norm_is_like_those_of_the_layers(size):
    options = {"norm": "rms", "no_biases": True, "encoder_normalize_before": True, "embedding_size": size}
    encoder = build_encoder("ea_transformer", **options).encoder.sentence_encoder
    assert type(encoder.layer_norm) is type(encoder.layers[0].final_layer_norm) is RMSNorm
    options |= {"norm": "layer"}
    norm = build_encoder("ea_transformer", **options, layer_norm_eps=1e-3).encoder.sentence_encoder.layer_norm
    assert (type(norm), norm.bias, norm.eps, len(norm.weight)) == (torch.nn.LayerNorm, None, 1e-3, 8)


def test_precomputed_embeddings_of_words_take_the_place_of_words():
    model = build_encoder("ea_transformer", "bert")
    encoder, (_, tokens) = model.encoder.sentence_encoder, draw(1)
    others = tokens.where(tokens < 4, 43 - tokens)  # padding and ends of sentences where they are
    found = encoder(tokens, token_embeddings=encoder.embed_tokens(others))["encoder_out"][0]
    assert torch.equal(found, encoder(others)["encoder_out"][0])
    assert not torch.allclose(found, encoder(tokens)["encoder_out"][0])


OF_DECODERS = ("no_decoder_conv", "no_cross_conv", "decoder_skip", "cross_skip", "scale_logits", "start_with_padding")


@pytest.mark.parametrize("opt", OF_DECODERS)
def test_a_flag_of_a_decoder_is_refused(opt):
    name = "--" + opt.replace("_", "-")
    with pytest.raises(UserError, match=f"^{name} is a flag of decoders"):
        build(**TINY, **{opt: True})


REFUSED = [
    ({"embedding_size": -1}, "--embedding-size must be a whole number, not -1"),
    ({"segments": "two"}, "--segments must be a whole number from 0 to 1,024, not 'two'"),
    ({"layer_norm_eps": 0}, "--layer-norm-eps must be a number above 0, not 0"),
    ({"encoder_attention_heads": 3}, "--encoder-attention-heads must divide --encoder-embed-dim, but 3 is no divisor"),
    ({"ea_alpha": 2}, "--ea-alpha must be a number from 0 to 1, not 2"),
    ({"mha_heads_to_keep": 1}, "--mha-heads-to-keep is not supported"),
    (
        {"mha_reg_scale_factor": 1.0, "relative_positions": "t5", "no_content_scores": True},
        "--mha-reg-scale-factor is for queries and keys",
    ),
    (
        {"relative_positions": "quadratic", "no_content_scores": True, "attention_type": "additive"},
        "--no-content-scores removes the scores of --attention-type additive",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=lambda part: str(part)[:30])
def test_a_bad_option_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        build(**{**TINY, **given})


def test_a_synthesizers_longest_sentence_is_the_models():
    assert build("synthesizer_roberta", **TINY, synthesizer_length=9).max_positions() == 9
    assert build(**TINY).max_positions() == TINY["max_positions"]


def test_defaults_are_those_for_encoders():
    for layout in LAYOUTS:
        for arch in FAMILIES["ea_transformer"].encoder_archs(layout):
            with FakeTensorMode():
                args = build(arch).args
            assert EvolutionOptions.from_namespace(args) == EvolutionOptions(0.2, 0.1, 3)
            bert = EncoderOptions(segments=2, layer_norm_eps=1e-12)
            assert EncoderOptions.from_namespace(args) == (bert if layout == "bert" else EncoderOptions())


def test_every_flag_is_in_the_help():
    parser = argparse.ArgumentParser()
    ARCH_MODEL_REGISTRY["ea_roberta"].add_args(parser)
    classes = EncoderOptions, EvolutionOptions, TermOptions, ConvolutionOptions
    assert all(flag_of(opt.name) in parser.format_help() for options in classes for opt in fields(options))
