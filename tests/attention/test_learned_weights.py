"""--ea-learned: alpha and beta are parameters, for each layer and head, which start at the flags."""

import argparse

import pytest
import torch

from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from laws import FURTHER_LAWS, LAWS, draw_padded, scores
from loops import Oracle, convolve
from model_checks import (
    assert_equals_loops,
    assert_kernels_agree,
    assert_loss_changes_along_its_gradient,
    each_backend,
    loss_of,
)
from tiny import SKIPS, TINY, build, make_loud

WEIGHTS = {"ea_alpha": 0.4, "ea_beta": 0.3}
SWITCHED = {
    "all": SKIPS,
    "none": {"no_encoder_skip": True, "no_encoder_conv": True, "no_cross_conv": True},
    "skips": {"no_encoder_conv": True, "no_decoder_conv": True, "no_cross_conv": True, **SKIPS},
    "convolutions": {"no_encoder_skip": True, "ea_kernel_size": 5},
    "relative positions": {"relative_positions": "shaw", **SKIPS},
    "by input": {"ea_learned": "input", **SKIPS},
}
each_switched = pytest.mark.parametrize("options", SWITCHED.values(), ids=SWITCHED)


class LearnedEvolving(Oracle):
    """Evolving attention (EA eq. 4), head by head by weights of its own, which may depend on the query's word."""

    def own(self, attention, tokens):
        self.queries = tokens.queries
        return super().own(attention, tokens)

    def logits(self, attention, kind, own, previous, masked):
        def weights(name):
            logits, words = (getattr(attention.learned, f"{name}_{part}", None) for part in ("logits", "input"))
            if logits is None:
                return [0.0] * attention.num_heads
            if words is None:
                return logits.flatten().sigmoid().tolist()
            return [torch.sigmoid(a + self.queries @ w.T) for a, w in zip(logits[:, 0], words.weight, strict=True)]

        mixed = own.clone()
        if previous is not None:
            for head, alpha in enumerate(weights("alpha")):
                mixed[head] = alpha * previous[head] + (1 - alpha) * own[head]
        mixed = mixed.masked_fill(masked, 0.0)
        evolved = mixed.clone()
        if attention.conv is not None:
            convolved = convolve(mixed, attention.conv.weight, attention.conv.bias, kind)
            for head, beta in enumerate(weights("beta")):
                evolved[head] = beta * convolved[head] + (1 - beta) * mixed[head]
        return evolved


def learned(is_loud: bool = True, **options):
    """A tiny model as it starts, or loud, with weights that differ from head to head."""
    model = build(**{**TINY, **WEIGHTS, "encoder_attention_heads": 4, "ea_learned": True, **options})
    return make_loud(model) if is_loud else model


def weights_of(model) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if ".learned." in name}


@each_switched
def test_heads_evolve_by_weights_of_their_own(options):
    assert_equals_loops(learned(**options), LearnedEvolving())


@pytest.mark.parametrize("law", [*LAWS, *FURTHER_LAWS], ids=lambda law: law.__name__)
@each_switched
def test_law_holds(law, options):
    law(learned(**options), seed=7)


@each_backend
@each_switched
def test_kernels_compute_the_same_loss_and_gradients(options, backend, monkeypatch):
    assert_kernels_agree(learned(**options), backend, monkeypatch)


@each_backend
def test_kernels_compute_the_same_where_probabilities_are_wanted(backend, monkeypatch):
    """Then they are given scores, and not queries and keys."""

    def loss(model):
        _, source, target = draw_padded(model, seed=4)
        weights = model(source, None, target, alignment_heads=1)[1]["attn"][0]
        return weights[target.ne(model.encoder.padding_idx)].square().sum()

    assert_kernels_agree(learned(**SKIPS), backend, monkeypatch, loss)


@each_backend
def test_kernels_compute_the_same_where_beta_rounds_to_1(backend, monkeypatch):
    model = learned(**SKIPS)
    for name, parameter in weights_of(model).items():
        if name.endswith("beta_logits"):
            parameter.data.fill_(18.0)
    assert_kernels_agree(model, backend, monkeypatch)


@each_backend
@pytest.mark.parametrize("logit", [80.0, 95.0, 1000.0])
def test_nothing_is_lost_where_beta_is_as_good_as_1(logit, backend, monkeypatch):
    model = learned(**SKIPS)
    for name, parameter in weights_of(model).items():
        if name.endswith("beta_logits"):
            parameter.data.fill_(logit)
    monkeypatch.setattr(dispatch, "backend", backend)
    loss = loss_of(model.train())
    loss.backward()
    assert loss.isfinite() and all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert_kernels_agree(model, backend, monkeypatch)


@each_switched
def test_they_start_at_the_flags(options):
    given = TINY | WEIGHTS | {"encoder_attention_heads": 4} | options
    model, fixed = learned(is_loud=False, **options), build(**given | {"ea_learned": "no"})
    fixed.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if ".learned." not in name})
    _, source, target = draw_padded(model, seed=1)
    torch.testing.assert_close(scores(model, source, target), scores(fixed, source, target), rtol=0, atol=1e-5)


def test_where_nothing_evolves_nothing_is_learned():
    assert not weights_of(learned(ea_alpha=0.0, ea_beta=0.0, ea_learned="input"))
    assert {name.rpartition(".")[2] for name in weights_of(learned(ea_alpha=0.0))} == {"beta_logits"}


@pytest.mark.parametrize("by", ["head", "input"])
def test_each_has_a_gradient_and_that_of_the_first_layer_s_alpha_is_zero(by):
    """Several processes wait for the gradients of all parameters."""
    model = learned(**SKIPS, ea_learned=by)
    loss_of(model.train()).backward()
    for name, parameter in weights_of(model).items():
        is_first = ".0.self_attn.learned.alpha" in name or ".0.encoder_attn.learned.alpha" in name
        assert bool(parameter.grad.any()) != is_first, name


@pytest.mark.parametrize("by", ["head", "input"])
def test_the_loss_changes_along_their_gradient(by):
    assert_loss_changes_along_its_gradient(learned(**SKIPS, ea_learned=by), ".learned.")


def test_the_flag_is_given_alone_or_with_a_value():
    parser = argparse.ArgumentParser()
    EvolutionOptions.add_args(parser)
    given = (["--ea-learned"], ["--ea-learned", "--cross-skip"], ["--ea-learned", "input"], [])
    found = [EvolutionOptions.from_namespace(parser.parse_args(flags)).ea_learned for flags in given]
    assert found == ["head", "head", "input", "no"]
    former = [EvolutionOptions(ea_learned=value).ea_learned for value in (False, True)]
    assert former == ["no", "head"]


def test_words_add_two_vectors_to_each_head():
    """+ 2 C K in an attention with a skip connection and a convolution; the sum is zero at the start, see above."""
    by_head, by_input = (learned(is_loud=False, ea_learned=by, **SKIPS) for by in ("head", "input"))
    numbers = [sum(parameter.numel() for parameter in model.parameters()) for model in (by_head, by_input)]
    assert numbers[1] - numbers[0] == 2 * 8 * (2 * 4 + 2 * 2 * 2)  # 2 layers of 4 heads, 2 of twice 2, of width 8


def test_a_checkpoint_keeps_them_and_one_without_is_refused_with_their_name():
    model = learned()
    other = learned(is_loud=False)
    other.load_state_dict(model.state_dict())
    _, source, target = draw_padded(model, seed=2)
    assert torch.equal(scores(other, source, target), scores(model, source, target))
    with pytest.raises(UserError, match=r"the checkpoint has no .*learned\.alpha_logits"):
        other.load_state_dict(build(**TINY | {"encoder_attention_heads": 4}).state_dict())


def test_a_plain_transformers_checkpoint_starts_them_at_the_flags():
    model = learned(is_loud=False)
    expected = {name: parameter.clone() for name, parameter in weights_of(model).items()}
    model.load_state_dict(build("transformer", **TINY | {"encoder_attention_heads": 4}).state_dict())
    assert all(torch.equal(parameter, expected[name]) for name, parameter in weights_of(model).items())


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"ea_alpha": 1.0}, "--ea-alpha"),
        ({"ea_beta": 1.0}, "--ea-beta"),
        ({"ea_beta": 0.99999999}, "--ea-beta"),  # 1 in float32
        ({"ea_warmup_updates": 3}, "--ea-warmup-upd"),
    ],
)
def test_what_they_cannot_start_at_is_refused(options, flag):
    with pytest.raises(UserError, match=f"{flag}.*--ea-learned|--ea-learned.*{flag}"):
        learned(**options)


def test_metrics_show_their_means():
    model = learned()
    attention = model.encoder.layers[1].self_attn
    shown = attention.metrics("encoder.1", "encoder")
    assert shown["ea_alpha/encoder.1"]() == pytest.approx(attention.learned.alpha_logits.sigmoid().mean().item())
    assert shown["ea_beta/encoder.1"]() == pytest.approx(attention.learned.beta_logits.sigmoid().mean().item())
    assert "ea_alpha/cross.1" not in model.decoder.layers[1].encoder_attn.metrics("cross.1", "cross")
