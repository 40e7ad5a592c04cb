"""Linear layers in bfloat16 and int8, with loops in place of the instructions that few processors have."""

import subprocess
from ctypes import CDLL, byref, c_int64, c_void_p

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commands import PLUGIN, ROOT
from ea_fairseq.search.native_model import PANEL, pack_linear
from needs import COMPILER, needs_compiler
from precision import rounded

EMULATION = ROOT / "tests" / "support" / "emulation"
GUARD = 7.0  # what stands behind the outputs

pytestmark = needs_compiler


@pytest.fixture(scope="module", params=["bfloat16", "bfloat16, tiles", "int8", "int8, tiles"])
def emulated_linear(request, tmp_path_factory):
    """A precision and the function that computes a linear layer in it."""
    library = tmp_path_factory.mktemp("emulation") / "linear.so"
    precision, _, tiles = request.param.partition(", ")
    folders = [f"-I{EMULATION}", f"-I{PLUGIN / 'kernels' / 'cpu'}"]
    flags = [
        "-O1",
        "-w",
        "-Wno-psabi",
        "-fPIC",
        "-shared",
        *["-DINT8"] * (precision == "int8"),
        *["-DTILES"] * bool(tiles),
    ]
    command = [COMPILER, *flags, *folders, EMULATION / "linear.c", "-o", library, "-lm"]
    subprocess.run(command, check=True)
    function = CDLL(str(library)).emulated_linear
    function.argtypes, function.restype = [c_void_p, c_void_p, c_int64, c_void_p, c_void_p], None
    return precision, function


def far_from_ties(rows: int, columns: int) -> torch.Tensor:
    """Random rows (rows, columns) that int8 rounds in one way, however a processor divides."""
    x = torch.randint(-126, 127, (rows, columns)) + 0.8 * (torch.rand(rows, columns) - 0.5)
    x[:, 0] = 127
    return x / 64


@given(
    rows=st.integers(1, 35),
    inputs=st.integers(1, 140),
    outputs=st.integers(1, 3 * PANEL),
    residual=st.booleans(),
    seed=st.integers(0, 999),
)
@example(rows=2, inputs=160, outputs=160, residual=False, seed=0)
@example(rows=17, inputs=33_000, outputs=1, residual=True, seed=0)  # 16 rows, as of a tile, would not fit the stack
@example(rows=131, inputs=1000, outputs=3, residual=True, seed=0)
@settings(max_examples=25)
def test_products_are_of_rounded_numbers_and_nothing_is_written_behind_them(
    emulated_linear, rows, inputs, outputs, residual, seed
):
    precision, function = emulated_linear
    torch.manual_seed(seed)
    x, weight, bias = far_from_ties(rows, inputs), far_from_ties(outputs, inputs), torch.randn(outputs)
    before = torch.randn(rows, outputs)
    x[-1] = torch.nan  # which no other row has anything to do with
    x[0], weight[0] = 0, 0
    written = torch.full((rows * outputs + PANEL,), GUARD)
    layer, _tensors = pack_linear(weight, bias, precision)  # valid as long as its tensors exist
    function(byref(layer), x.data_ptr(), rows, before.data_ptr() if residual else None, written.data_ptr())
    expected = F.linear(rounded(x, precision), rounded(weight, precision), bias.double())
    expected = (expected + (before if residual else 0.0)).float()
    found, behind = written[:-PANEL].view(rows, outputs), written[-PANEL:]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3, equal_nan=True)
    assert behind.eq(GUARD).all()
