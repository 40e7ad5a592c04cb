"""Whoever computes the evolution, the model is the same; and what EA_BACKEND says."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels import triton
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.native_library import LIBRARY
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from laws import FURTHER_LAWS, LAWS, draw_padded
from model_checks import native_only
from needs import needs_compiler
from tiny import COMBINATIONS, build_loud

# Of native code all tests check the laws where that is compiled.
laws = pytest.mark.parametrize("law", [*LAWS, *FURTHER_LAWS], ids=lambda law: law.__name__)
models = given(options=st.sampled_from(COMBINATIONS), seed=st.integers(0, 2**32 - 1))


def check(law, chosen, options, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "backend", chosen)
        law(build_loud(loudness=0.2, **options), seed)


@laws
@models
@settings(max_examples=5, derandomize=True)
def test_law_holds_of_the_reference(law, options, seed):
    check(law, "reference", options, seed)


@pytest.mark.slow
@laws
@models
@settings(max_examples=10)
def test_law_holds_of_triton(law, options, seed):
    check(law, "triton", options, seed)


def replaced(attention):
    torch.manual_seed(1)
    attention.conv = nn.Conv2d(attention.num_heads, attention.num_heads, attention.conv.kernel_size)


def pruned(attention):
    prune.l1_unstructured(attention.conv, "weight", 0.5)
    with torch.no_grad():
        attention.conv.weight_orig.neg_()  # as training changes it


def normed(attention):
    attention.conv = weight_norm(attention.conv)


@native_only
@pytest.mark.parametrize("change", [replaced, pruned, normed])
def test_a_convolution_that_is_another_is_the_one_that_is_computed(change, monkeypatch):
    model = build_loud()
    _, source, target = draw_padded(model, seed=4)
    before = model(source, None, target)[0]
    for attention in [module for module in model.modules() if isinstance(module, EvolvingAttention)]:
        change(attention)
    found = []
    for chosen in ("native", "reference"):
        monkeypatch.setattr(backend, "backend", chosen)
        found.append(model(source, None, target)[0][target.ne(1)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert change is normed or not torch.allclose(found[0], before[target.ne(1)], atol=0.01)


@pytest.mark.parametrize("chosen", [pytest.param("native", marks=native_only), "reference"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_every_convolution_runs_its_hooks(chosen, kernel, monkeypatch):
    """Pruning and quantization noise are hooks."""
    monkeypatch.setattr(backend, "backend", chosen)
    model = build_loud(ea_kernel_size=kernel)
    _, source, target = draw_padded(model, seed=4)
    convolutions = {name for name, module in model.named_modules() if name.endswith("attn.conv")}
    ran = set()
    for name in convolutions:
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: ran.add(name))
    model(source, None, target)
    assert ran == convolutions


@native_only
@pytest.mark.parametrize("need_attn", [False, True], ids=["attend", "evolve"])
def test_second_derivatives_are_refused_and_not_zero(need_attn):
    model = build_loud()
    model.make_generation_fast_(need_attn=need_attn)
    _, source, target = draw_padded(model, seed=4)
    weight = model.encoder.layers[0].self_attn.q_proj.weight
    (gradient,) = torch.autograd.grad(model(source, None, target)[0].cos().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="kernels have no second derivatives"):
        gradient.square().sum().backward()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fast", "EA_BACKEND must be auto, reference, native or triton, not 'fast'"),
        (
            "native",
            "EA_BACKEND=native is not possible because the native code was not compiled; install ea_fairseq again",
        ),
        ("triton", "needs Triton"),
    ],
)
def test_a_backend_that_is_not_there_is_refused(monkeypatch, name, sentence):
    monkeypatch.setattr(backend, "backend", name)
    monkeypatch.setattr(native_library, "LIBRARY", None)
    monkeypatch.setattr(native_library, "WHY_NOT", "the native code was not compiled")
    monkeypatch.setattr(triton, "AVAILABLE", False)
    with pytest.raises(UserError, match=sentence):
        build_loud()


@pytest.mark.skipif(backend.torch.cuda.is_available(), reason="on a GPU nothing is said of the native code")
def test_without_native_code_a_model_works_and_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(backend, "backend", "auto")
    monkeypatch.setattr(native_library, "LIBRARY", None)
    monkeypatch.setattr(native_library, "WHY_NOT", "the native code was not compiled")
    backend.warn_slow_fallback.cache_clear()
    for _ in range(2):
        LAWS[0](build_loud(), 1)
    (record,) = caplog.records
    reason = "the native code was not compiled; install ea_fairseq again"
    assert re.match(f"evolving attention runs in plain PyTorch, .* because {reason}", record.message)
    backend.warn_slow_fallback.cache_clear()


@native_only
def test_with_native_code_nothing_is_said(monkeypatch, caplog):
    monkeypatch.setattr(backend, "backend", "auto")
    build_loud()
    assert not caplog.records


@needs_compiler
def test_where_there_is_a_compiler_the_native_code_is_compiled():
    """Otherwise code that does not compile would have its tests skipped."""
    assert LIBRARY, "install the project again: pip install --editable ."
