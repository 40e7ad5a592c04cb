"""The GPU operation in Triton equals the equations in float64: on a GPU, or else in Triton's interpreter on the CPU."""

import os
import runpy
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import evolution_cases
from commands import ROOT, run
from ea_fairseq.kernels import dispatch, triton
from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.evolve import evolve
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.kernels.triton.evolution import Tiling
from ea_fairseq.kernels.window import DECODER_WINDOW, ENCODER_WINDOW
from evolution_cases import CONVOLUTIONS, assert_close, mixes, sets_of_absent

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytest.importorskip("triton", reason="Triton is not installed")

TILINGS = [  # the interpreter takes its time for each tile and each program
    Tiling(band=3, rows=4, columns=8, warps=1),
    Tiling(band=2, rows=8, columns=2, warps=1),
    Tiling(band=5, rows=2, columns=16, warps=2),
]
TOLERANCES = {torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 2e-2}


def draw_case(*args, **options):
    return evolution_cases.draw_case(*args, **options, device=DEVICE)


def operate(case, tiling=None):
    return case.operate(triton_evolution, tiling)


@pytest.fixture(autouse=True)
def spoilt_memory():
    """Fills new memory with NaN, so that a kernel which reads what it has not written shows it."""
    torch.set_deterministic_debug_mode("warn")
    yield
    torch.set_deterministic_debug_mode("default")


seeds = st.integers(0, 2**32 - 1)
# Examples are slow, and looking for a smaller one would take minutes.
patient = settings(phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(("window", "kernel"), CONVOLUTIONS)
def test_every_convolution(window, kernel):
    case = draw_case(1, (2, 3, 4, 5), window, kernel)
    assert_close(operate(case, TILINGS[0]), case.expected(), 1e-6, case)


@given(seed=seeds, dtype=st.sampled_from(list(TOLERANCES)), absent=sets_of_absent, weights=mixes)
@settings(patient, max_examples=12)
def test_every_switch(seed, dtype, absent, weights):
    case = draw_case(seed, (1, 2, 3, 4), DECODER_WINDOW, 3, dtype, absent, weights)
    assert_close(operate(case, TILINGS[0]), case.expected(), TOLERANCES[dtype], case)


@pytest.mark.slow
@given(
    seed=seeds,
    sizes=st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 3, 9]), st.integers(1, 6), st.integers(1, 9)),
    convolution=st.sampled_from(CONVOLUTIONS),
    dtype=st.sampled_from(list(TOLERANCES)),
    absent=sets_of_absent,
    weights=mixes,
    tiling=st.sampled_from([*TILINGS, None]),
)
@settings(patient, max_examples=150)
def test_everything_together(seed, sizes, convolution, dtype, absent, weights, tiling):
    case = draw_case(seed, sizes, *convolution, dtype, absent, weights)
    assert_close(operate(case, tiling), case.expected(), TOLERANCES[dtype], case)


@pytest.mark.parametrize("sizes", [(1, 2, 18, 3), (1, 1, 2, 260), (1, 17, 2, 3)], ids=["queries", "keys", "heads"])
def test_many(sizes):
    case = draw_case(1, sizes, absent=frozenset({"future"}))
    assert_close(operate(case), case.expected(), 1e-6, case)


def test_blank_entries_are_zero_even_where_a_sentence_has_no_words():
    case = draw_case(1, (2, 2, 3, 6), absent=frozenset({"future"}))
    case = replace(case, padded_keys=case.padded_keys | torch.tensor([[True], [False]], device=DEVICE))
    logits, probabilities, _, d_scores, d_previous, *_ = results = operate(case, TILINGS[1])
    assert_close(results, case.expected(), 1e-6, case)
    for maps, shown in (
        (logits, case.real),
        (d_scores, case.real),
        (d_previous, case.real),
        (probabilities, case.visible | ~case.visible.any(-1, keepdim=True)),
    ):
        assert not maps.masked_fill(shown, 0.0).any()


def test_previous_logits_of_weight_zero_are_not_read():
    case = draw_case(1, (1, 2, 3, 4), absent=frozenset({"future"}))
    fused = FusedLogits(previous_weight=0.0, own_weight=0.6)
    spoilt = torch.full_like(case.previous, torch.nan)
    alone = FusedArguments.of(fused, case.scale, spoilt.shape, spoilt.device, spoilt, AttentionMasks())
    assert (alone.previous, alone.mix) == (None, None)


def test_probabilities_are_those_of_the_rounded_logits_passed():
    case = replace(draw_case(1, (1, 2, 3, 4), dtype=torch.bfloat16), scale=20.0)
    logits, probabilities, *_ = operate(case, TILINGS[0])
    expected = logits.float().masked_fill(~case.visible, -1e30).softmax(-1)
    torch.testing.assert_close(probabilities.float(), expected, atol=1e-6, rtol=2**-8)


@pytest.mark.skipif(DEVICE == "cuda", reason="a GPU runs programs in any order")
def test_order_of_programs_does_not_matter(monkeypatch):
    builder = pytest.importorskip("triton.runtime.interpreter").interpreter_builder
    case = draw_case(1, (1, 2, 6, 3), ENCODER_WINDOW, kernel=5)
    forwards = operate(case, TILINGS[0])
    set_index = builder.set_grid_idx
    monkeypatch.setattr(builder, "set_grid_idx", lambda x, y, z: set_index(builder.grid_dim[0] - 1 - x, y, z))
    for result, expected in zip(operate(case, TILINGS[0]), forwards, strict=True):
        assert torch.equal(result, expected)


def test_past_the_dispatcher_gradients_are_the_same_and_have_none_themselves(monkeypatch):
    monkeypatch.setattr(dispatch, "backend", "triton")
    torch.manual_seed(1)
    conv = torch.nn.Conv2d(2, 2, 3, device=DEVICE)
    fused = FusedLogits(0.7, 0.3, conv, ENCODER_WINDOW, 0.4)
    scores, previous = (torch.randn(1, 2, 3, 3, device=DEVICE, requires_grad=True) for _ in range(2))
    inputs = scores, previous, conv.weight, conv.bias
    arguments = FusedArguments.of(fused, 0.5, scores.shape, scores.device, previous, AttentionMasks())
    gradients = []
    for logits, weights in (
        evolve(scores, 0.5, fused, previous, AttentionMasks()),
        torch.ops.ea_fairseq.evolve(scores, *arguments)[:2],
    ):
        loss = (logits * weights.cos()).sum()
        gradients.append(torch.autograd.grad(loss, inputs, retain_graph=True))
        once = torch.autograd.grad(loss, scores, create_graph=True)
        with pytest.raises(RuntimeError, match="kernels have no second derivatives"):
            once[0].square().sum().backward()
    assert all(map(torch.equal, *gradients))


def test_same_bits_twice():
    case = draw_case(1, (1, 2, 5, 5))
    for once, again in zip(operate(case), operate(case), strict=True):
        assert torch.equal(once, again)


@example(heads=8, queries=1, keys=32)
@given(heads=st.integers(1, 100), queries=st.integers(1, 2000), keys=st.integers(1, 2000))
def test_tiles_fit_a_program_and_bands_cover_the_map(heads, queries, keys):
    tiling = Tiling.of(heads, queries, keys)
    assert 1 <= tiling.band <= 16
    assert tiling.columns < 2 * max(keys, 32)
    assert tiling.rows * tiling.columns >= 16 * tiling.warps
    assert all(number.bit_count() == 1 for number in (tiling.rows, tiling.columns, tiling.warps))


def test_only_an_operation_imports_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    runpy.run_path(triton_evolution.__file__)


def test_triton_is_not_available_where_it_is_missing_or_too_old(monkeypatch):
    assert triton.AVAILABLE
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.4.0")
    assert not runpy.run_path(triton.__file__)["AVAILABLE"]
    monkeypatch.setattr("importlib.metadata.version", mock.Mock(side_effect=PackageNotFoundError))
    assert not runpy.run_path(triton.__file__)["AVAILABLE"]


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu(tmp_path):
    program = ROOT / "tests" / "support" / "gpu_compilation.py"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    result = run(Path(sys.executable).name, program, cwd=tmp_path, **environment)
    assert result.returncode == 0, result.stderr
