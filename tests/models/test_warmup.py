"""--ea-warmup-updates: alpha and beta grow from 0 over the first updates of a training, and only there."""

import pytest
import torch
from fairseq import checkpoint_utils
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders import PAD, draw, features, louder
from encoders import TINY as TINY_ENCODER
from encoders import build as build_any
from forked import run_forked_well
from laws import draw_padded, scores
from reversal import losses_of
from sentence_data import TEXT, binarize_sentences, encoder_command
from tiny import SKIPS, TINY, build

ALPHA, BETA, UPDATES = 0.5, 0.25, 8
WEIGHTS = {"ea_alpha": ALPHA, "ea_beta": BETA}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
WARMING = {**WEIGHTS, "ea_warmup_updates": UPDATES}


def transformer(**options):
    return build("ea_transformer", **{**TINY, **SKIPS, **options})


def encoder(arch: str = "ea_roberta", **options):
    return louder(build_any(arch, **{**TINY_ENCODER, **options}))


@pytest.mark.parametrize("training", [False, True])
def test_before_the_first_update_a_transformer_is_fairseqs_to_the_last_bit(training):
    warming, plain = transformer(**WARMING).train(training), build("transformer", **TINY).train(training)
    warming.load_state_dict(plain.state_dict())
    warming.set_num_updates(0)
    _, source, target = draw_padded(plain, 1)
    assert torch.equal(scores(warming, source, target), scores(plain, source, target))


@pytest.mark.parametrize("training", [False, True])
def test_before_the_first_update_an_encoder_is_fairseqs_roberta_to_the_last_bit(training):
    warming, plain = encoder(**WARMING).train(training), encoder("roberta").train(training)
    warming.load_state_dict(plain.state_dict())
    warming.set_num_updates(0)
    _, tokens = draw(1)
    words = tokens.ne(PAD)
    assert torch.equal(features(warming, tokens)[words], features(plain, tokens)[words])


@pytest.mark.parametrize(
    "options",
    [{"no_scale_attention": True}, {"no_biases": True}, {"connections": "mudd", **PRE_NORM}],
    ids=["no scale", "no biases", "MUDD"],
)
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_before_the_first_update_flags_of_layers_hold(options, training):
    warming = transformer(**WARMING, **options).train(training)
    without = transformer(ea_alpha=0.0, ea_beta=0.0, **options).train(training)
    shared = dict(warming.named_parameters())
    for name, parameter in without.named_parameters():
        if ".connections." in name:  # which would start as sums
            shared[name] += 0.3 * torch.randn_like(parameter)
        parameter.copy_(shared[name])
    warming.set_num_updates(0)
    _, source, target = draw_padded(without, 1)
    assert torch.equal(scores(warming, source, target), scores(without, source, target))


@given(updates=st.integers(1, UPDATES), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_meanwhile_a_model_is_the_one_of_lower_alpha_and_beta(updates, seed):
    warming = transformer(**WARMING)
    warming.set_num_updates(updates)
    grown = updates / UPDATES
    constant = transformer(ea_alpha=grown * ALPHA, ea_beta=grown * BETA)
    constant.load_state_dict(warming.state_dict())
    _, source, target = draw_padded(warming, seed)
    assert torch.equal(scores(warming, source, target), scores(constant, source, target))


@pytest.mark.parametrize("updates", [None, UPDATES, UPDATES + 1, 10**9])
def test_afterwards_and_without_a_training_alpha_and_beta_are_full(updates):
    model, constant = encoder(**WARMING), encoder(**WEIGHTS)
    model.set_num_updates(1)
    model = encoder(**WARMING) if updates is None else model
    if updates is not None:
        model.set_num_updates(updates)
    _, tokens = draw(2)
    assert torch.equal(features(model, tokens), features(constant, tokens))


def test_without_the_flag_updates_change_nothing():
    model, (_, tokens) = encoder(**WEIGHTS), draw(3)
    expected = features(model, tokens)
    for updates in (0, 1, 100):
        model.set_num_updates(updates)
        assert torch.equal(features(model, tokens), expected)


def test_every_parameter_has_a_gradient_from_the_first_update_on():
    """Several processes wait for the gradients of all parameters; those of a convolution of weight 0 are 0."""
    model, (_, tokens) = encoder(**WARMING).train(), draw(4)
    for updates in (0, 1):
        model.set_num_updates(updates)
        model.zero_grad()
        model(tokens)[0].cos().sum().backward()
        found = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert not [name for name, gradient in found.items() if gradient is None]
        norms = [gradient.norm() > 0 for name, gradient in found.items() if ".conv." in name]
        assert any(norms) == bool(updates)


def test_metrics_show_what_a_training_has_reached():
    attention = encoder(**WARMING).encoder.sentence_encoder.layers[1].self_attn
    shown = attention.metrics("layer", "encoder")
    for updates in (0, 2, UPDATES):
        attention.set_num_updates(updates)
        assert shown["ea_alpha/encoder"]() == pytest.approx(ALPHA * updates / UPDATES)
        assert shown["ea_beta/encoder"]() == pytest.approx(BETA * updates / UPDATES)


@pytest.mark.slow
def test_a_compiled_model_is_compiled_thrice_at_most():
    """Plain, while alpha and beta grow, and with both as they stay."""
    torch.compiler.reset()
    models, (_, tokens), graphs = [encoder(**WARMING).train() for _ in range(2)], draw(5), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    models[1].compile(backend=backend, fullgraph=True, dynamic=True)
    for updates in range(UPDATES + 2):
        for model in models:
            model.set_num_updates(updates)
        expected, found = (model(tokens)[0][tokens.ne(PAD)] for model in models)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert len(graphs) == 3


@pytest.mark.slow
def test_a_training_goes_on_where_it_was_and_a_checkpoint_evaluates_as_at_its_update(tmp_path):
    home = binarize_sentences(tmp_path)
    flags = ["--ea-warmup-updates", UPDATES, "--ea-alpha", ALPHA, "--ea-beta", BETA]

    def losses(folder, updates):
        return losses_of(run_forked_well(*encoder_command("masked_lm", folder, updates, *flags), cwd=home))

    expected = losses("whole", 6)
    assert losses("halves", 3) | losses("halves", 6) == expected
    path = str(home / "halves" / "checkpoint_last.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], {"data": str(home / TEXT)})
    evolution = model.encoder.sentence_encoder.layers[1].self_attn.evolution
    assert (evolution.alpha, evolution.beta) == (ALPHA * 6 / UPDATES, BETA * 6 / UPDATES)
