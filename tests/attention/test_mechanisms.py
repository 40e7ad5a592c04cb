"""What must hold for every mechanism, of all that are registered and of those that the tests make up."""

import argparse
import copy
import logging
from contextlib import nullcontext
from functools import cache

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.attention.inputs import Passed
from ea_fairseq.attention.recording import recording
from ea_fairseq.attention.registry import FAMILIES, PLAIN, baseline_of, family_of
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from ea_fairseq.mechanisms.predictive import PredictiveAttention
from ea_fairseq.mechanisms.realformer import RealFormerAttention
from ea_fairseq.models.state_dict import MECHANISM
from laws import FURTHER_LAWS, LAWS
from made_up import MADE_UP
from mechanisms import ROWS
from model_checks import (
    assert_equals_loops,
    assert_kernels_agree,
    assert_torch_counts_the_same,
    each_backend,
)
from tiny import TINY, build, make_loud

EVOLUTION = Evolution(WINDOWS["encoder"], alpha=0.5, beta=0.3, kernel_size=3)
CHANGED = {
    "plain": (Attention, ["scores", "combine", "transform"], ()),
    "realformer": (RealFormerAttention, ["scores", "combine", "transform"], ()),
    "evolving": (EvolvingAttention, ["scores", "combine", "transform", "convolve"], (EVOLUTION,)),
    "predictive": (PredictiveAttention, ["scores", "combine", "transform"], (0.3, 1, False)),
}


@pytest.mark.parametrize("through", ["itself", "a mixin", "a subclass that changes nothing"])
@pytest.mark.parametrize(("name", "step"), [(name, step) for name, (_, steps, _) in CHANGED.items() for step in steps])
def test_a_subclass_that_changes_a_step_has_its_own_equation_and_not_that_of_kernels(name, step, through):
    kind, _, arguments = CHANGED[name]
    changed = {step: lambda self, *args: 3 * getattr(kind, step)(self, *args).tanh()}
    if through == "a mixin":
        subclass = type("Changed", (type("Changes", (), changed), kind), {})
    else:
        subclass = type("Changed", (kind,), changed)
    if through == "a subclass that changes nothing":
        subclass = type("Same", (subclass,), {})
    attention = subclass(16, 4, *arguments, self_attention=True).eval()
    x, previous = torch.randn(7, 2, 16), Passed(torch.randn(2, 4, 7, 7))
    with torch.no_grad():
        output, _, passed = attention(x, x, x, previous=previous)
        with recording(attention):
            expected = attention(x, x, x, previous=previous)
    torch.testing.assert_close(output, expected[0])
    if attention.passes_logits:
        torch.testing.assert_close(passed.logits, expected[2].logits)


ALL = ROWS | MADE_UP
each_family = pytest.mark.parametrize("family", ALL)


def build_family(family: str, **options):
    return make_loud(build(family, **{**TINY, **ALL[family].options, **options}))


def test_every_mechanism_has_a_row():
    assert set(ALL) == set(FAMILIES)


@each_family
def test_a_model_equals_loops(family):
    assert_equals_loops(build_family(family), ALL[family].oracle)


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each_family
def test_law_holds(family, law):
    law(build_family(family), seed=3)


@each_backend
@each_family
def test_kernels_compute_what_the_equations_do(family, backend, monkeypatch):
    """Where a mechanism lets them: outputs and gradients of a model in training."""
    assert_kernels_agree(build_family(family), backend, monkeypatch)


@each_family
def test_torchs_own_counter_of_flops_agrees(family, monkeypatch):
    """It counts matrix products and convolutions alone."""
    monkeypatch.setattr(dispatch, "backend", "reference")
    assert_torch_counts_the_same(build_family(family))


def has_other_sizes(model, plain) -> bool:
    """Whether projections are of other sizes than a plain Transformer's."""
    sizes = {name: parameter.shape for name, parameter in plain.state_dict().items()}
    return any(parameter.shape != sizes.get(name, parameter.shape) for name, parameter in model.state_dict().items())


def refused_if(mismatch: bool):
    return pytest.raises(UserError, match="does not fit the model") if mismatch else nullcontext()


cached_family = cache(build_family)  # of models that take no checkpoint


@each_family
def test_a_checkpoint_fits_its_own_family_alone(family, caplog):
    """A plain Transformer's is taken where its attentions have the same size; the log says in one line what is new."""
    model, plain = build_family(family), build("transformer", **TINY)
    build_family(family, seed=2).load_state_dict(model.state_dict())
    if any(MECHANISM.search(name) for name in model.state_dict()):
        with pytest.raises(RuntimeError):
            plain.load_state_dict(copy.copy(model.state_dict()))
        with caplog.at_level(logging.INFO, logger="ea_fairseq"), refused_if(has_other_sizes(model, plain)):
            model.load_state_dict(plain.state_dict())
        assert has_other_sizes(model, plain) or caplog.messages[0].startswith("the checkpoint is a plain model's: ")
        assert len(caplog.messages) == (not has_other_sizes(model, plain))
    for other in set(ALL) - {family}:
        with pytest.raises(UserError, match="does not fit the model"):
            cached_family(other).load_state_dict(model.state_dict())


@each_family
def test_fairseq_knows_its_architectures(family):
    for arch, size in FAMILIES[family].archs.items():
        assert ARCH_MODEL_REGISTRY[arch].family is FAMILIES[family]
        assert (family_of(arch), baseline_of(arch)) == (FAMILIES[family], PLAIN[size])
    parser = argparse.ArgumentParser()
    FAMILIES[family].attention.options.add_args(parser)
    assert parser.parse_args([]) == argparse.Namespace()
    assert family_of("transformer_lite") is baseline_of("transformer_lite") is None
