"""Linear layers in bfloat16, with loops in place of the instructions that few processors have."""

import subprocess
from ctypes import CDLL, byref, c_int64, c_void_p

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commands import PLUGIN, ROOT
from compilers import COMPILER, needs_compiler
from ea_fairseq.search.native_model import PANEL, pack_linear

EMULATION = ROOT / "tests" / "support" / "emulation"
GUARD = 7.0  # what stands behind the outputs

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def emulated_linear(tmp_path_factory):
    library = tmp_path_factory.mktemp("emulation") / "linear.so"
    folders = [f"-I{EMULATION}", f"-I{PLUGIN / 'kernels' / 'cpu'}"]
    flags = ["-O1", "-w", "-Wno-psabi", "-fPIC", "-shared"]
    command = [COMPILER, *flags, *folders, EMULATION / "linear.c", "-o", library, "-lm"]
    subprocess.run(command, check=True)
    function = CDLL(str(library)).emulated_linear
    function.argtypes, function.restype = [c_void_p, c_void_p, c_int64, c_void_p, c_void_p], None
    return function


@given(
    rows=st.integers(1, 13),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 3 * PANEL),
    residual=st.booleans(),
    seed=st.integers(0, 999),
)
@example(rows=2, inputs=160, outputs=160, residual=False, seed=0)
@settings(max_examples=50)
def test_products_are_of_rounded_numbers_and_nothing_is_written_behind_them(
    emulated_linear, rows, inputs, outputs, residual, seed
):
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    before = torch.randn(rows, outputs)
    x[-1] = torch.nan  # which no other row has anything to do with
    written = torch.full((rows * outputs + PANEL,), GUARD)
    layer, _tensors = pack_linear(weight, bias, bfloat16=True)  # valid as long as its tensors exist
    emulated_linear(byref(layer), x.data_ptr(), rows, before.data_ptr() if residual else None, written.data_ptr())
    expected = F.linear(x.bfloat16().float(), weight.bfloat16().float(), bias) + (before if residual else 0.0)
    found, behind = written[:-PANEL].view(rows, outputs), written[-PANEL:]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4, equal_nan=True)
    assert behind.eq(GUARD).all()
