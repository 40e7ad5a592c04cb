"""A kernel in Triton that differs from PyTorch, fails or crashes never computes a model's attention."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import check_records, dispatch, evolve, reference, sample_maps, self_check
from ea_fairseq.kernels.check_records import Record
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.kind import Kind
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.kernels.triton.evolution import Tiling
from ea_fairseq.kernels.window import ENCODER_WINDOW, WINDOWS
from model_checks import native_only

triton = pytest.importorskip("triton", reason="Triton is not installed")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS = ("forward", "backward")
FORWARD, BACKWARD = triton_evolution.forward, triton_evolution.backward
REAL_CHECK, REAL_KERNELS = self_check.passes, evolve.kernels


@pytest.fixture(autouse=True)
def new_process(tmp_path, monkeypatch):
    """As a new process begins on a GPU of a user without records; on a CPU kernels are interpreted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(dispatch, "backend", "auto")
    monkeypatch.setattr(evolve, "is_fused", lambda maps, exact: True)
    monkeypatch.setattr(evolve, "kernels", lambda device: triton_evolution)
    monkeypatch.setattr(self_check, "passes", REAL_CHECK)
    forget()
    yield
    forget()


def forget():
    """What a process knows and has said."""
    self_check.agreements.clear()
    self_check.warned.clear()
    check_records.folder.cache_clear()


def small_model(kernel: int = 0) -> list[torch.Tensor]:
    """Logits and probabilities of an attention with previous logits and padding, and the gradients of what it reads."""
    generator = torch.Generator().manual_seed(3)

    def draw(*size):
        return torch.randn(size, generator=generator).to(DEVICE).requires_grad_()

    scores, previous, conv = draw(2, 2, 3, 4), draw(2, 2, 3, 4), None
    if kernel:
        conv = SimpleNamespace(weight=draw(2, 2, kernel, kernel), bias=draw(2), kernel_size=(kernel, kernel))
    padding = (torch.arange(4) >= torch.tensor([[4], [2]])).to(DEVICE)
    fused = FusedLogits(0.9, 0.1, conv, ENCODER_WINDOW, 0.1)
    found = evolve.evolve(scores, 1.0, fused, previous, AttentionMasks(padding))
    value = found[0].square().sum() + found[1].square().sum()
    return [*found, *torch.autograd.grad(value, [scores, previous, *([conv.weight, conv.bias] if conv else [])])]


def by_pytorch(**options) -> list[torch.Tensor]:
    with mock.patch.object(evolve, "checked_kernels", lambda *args: reference):
        return small_model(**options)


def assert_close(found: list[torch.Tensor], expected: list[torch.Tensor]):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def assert_pytorch_computes(caplog, *parts: str, warnings: int = 1):
    """Every number is PyTorch's, now and the next time, and there is one warning that says so."""
    caplog.clear()
    expected = by_pytorch()
    for _ in range(2):
        assert_close(small_model(), expected)
    sentences = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(sentences) == warnings
    for sentence in sentences:
        for part in (check_records.device_name(DEVICE), "2 heads, no convolution, with previous logits", *parts):
            assert part in sentence
        assert sentence.endswith("; PyTorch computes instead; EA_BACKEND=reference says so from the start")


def changed(step: str, number: float):
    """A kernel that returns another number somewhere in its first tensor."""

    def compute(*args, **options):
        first, *others = {"forward": FORWARD, "backward": BACKWARD}[step](*args, **options)
        first[0, -1, 0, 1] += number
        return first, *others

    return compute


def raising(error: BaseException):
    return mock.Mock(side_effect=error)


def uncompiled():
    error = triton.compiler.errors.CompilationError("def evolve(): pass", mock.Mock(lineno=1, col_offset=0), "planted")
    return raising(error)


FAULTS = {
    "a wrong number": (lambda step: changed(step, 1e-3), "differs from PyTorch by 0.001"),
    "NaN": (lambda step: changed(step, torch.nan), "differs from PyTorch by nan"),
    "an exception": (lambda step: raising(RuntimeError("planted\x1b\nmore")), "fails (RuntimeError: planted?)"),
    "no compilation": (lambda step: uncompiled(), "fails (CompilationError: at 1:"),
    "another size": (lambda step: lambda *args, **options: [torch.zeros(1)] * 4, "differs from PyTorch by inf"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
def test_pytorch_takes_the_place_of_a_kernel_that_fails(step, fault, monkeypatch, caplog):
    plant, part = FAULTS[fault]
    monkeypatch.setattr(triton_evolution, step, plant(step))
    assert_pytorch_computes(caplog, f"({step}, float32,", part)
    forget()  # a later process believes the record
    monkeypatch.setattr(self_check, "compare", raising(AssertionError("is checked again")))
    assert_pytorch_computes(caplog, part)
    forget()
    monkeypatch.setattr(dispatch, "backend", "triton")
    with pytest.raises(UserError, match="without EA_BACKEND=triton, PyTorch computes instead") as caught:
        small_model()
    assert part in str(caught.value)


def test_a_kernel_that_equals_pytorch_is_used_and_is_not_checked_again(monkeypatch, caplog):
    used = []
    for step, kernel in zip(STEPS, (FORWARD, BACKWARD), strict=True):
        kept = lambda *args, step=step, kernel=kernel, **options: used.append(step) or kernel(*args, **options)  # noqa: E731
        monkeypatch.setattr(triton_evolution, step, kept)
    assert_close(small_model(kernel=3), by_pytorch(kernel=3))
    assert used == ["forward", "forward", "backward", "backward"]  # each once in its check
    forget()
    small_model(kernel=3)
    assert used[4:] == ["forward", "backward"]
    assert not caplog.records


@pytest.mark.parametrize("exact", [False, True], ids=["auto", "EA_BACKEND=triton"])
def test_a_check_without_memory_says_nothing_of_the_kernel(exact, monkeypatch):
    monkeypatch.setattr(dispatch, "backend", "triton" if exact else "auto")
    monkeypatch.setattr(triton_evolution, "forward", raising(torch.OutOfMemoryError("none is left")))
    with pytest.raises(torch.OutOfMemoryError):
        small_model()
    assert not list(check_records.folder(DEVICE).iterdir())
    monkeypatch.setattr(triton_evolution, "forward", FORWARD)
    small_model()


def test_a_kernel_that_ends_the_gpu_context_ends_the_process_in_a_sentence_and_is_not_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(triton_evolution, "forward", raising(RuntimeError("CUDA error: an illegal memory access")))
    with monkeypatch.context() as lost:
        lost.setattr(self_check, "is_usable", lambda device: False)
        with pytest.raises(UserError, match=r"illegal memory access.* leaves the GPU unusable: start again"):
            small_model()
    forget()
    assert_pytorch_computes(caplog, "illegal memory access")


def test_a_kernel_whose_check_crashed_an_earlier_process_is_not_tried_again(monkeypatch, caplog):
    small_model()
    records = sorted(check_records.folder(DEVICE).iterdir())
    assert [path.suffix for path in records] == [".json", ".json"]
    for path in records:
        if (child := os.fork()) == 0:
            Record(path).run("a kernel", lambda: os._exit(0))
        os.waitpid(child, 0)
    forget()
    monkeypatch.setattr(self_check, "compare", raising(AssertionError("is tried again")))
    assert_pytorch_computes(caplog, "crashed or was killed in its check (to check it again, remove ", warnings=2)


def test_a_check_that_another_process_is_at_is_done_here_too(tmp_path):
    path = tmp_path / "record.json"
    for other, known in (
        ({"pid": os.getpid()}, None),
        ({"host": "another", "at": 1e99}, None),
        ({"host": "another", "at": 1}, ""),
    ):
        Record(path).write({"kernel": "one", "problem": None, "host": check_records.socket.gethostname(), **other})
        problem = Record(path).problem()
        assert (problem is None) == (known is None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[" * 5000,
        b'{"problem": ""',
        b'["problem"]',
        b'{"problem": 1}',
        b'{"kernel": "one"}',
        b'{"problem": "\\u001b[2J"}',
        b'{"problem": "' + b"x" * 20_000 + b'"}',
    ],
    ids=["empty", "binary", "deep", "cut", "list", "number", "nothing", "terminal", "long"],
)
def test_a_damaged_record_says_nothing(content, tmp_path):
    (tmp_path / "record.json").write_bytes(content)
    assert Record(tmp_path / "record.json").problem() is None


def test_a_damaged_record_is_made_anew():
    small_model()
    records = sorted(check_records.folder(DEVICE).iterdir())
    for path in records:
        path.write_bytes(path.read_bytes()[:-1])
    forget()
    small_model()
    assert [Record(path).problem() for path in records] == ["", ""]


def test_without_a_place_for_records_kernels_are_checked_in_each_process(monkeypatch, tmp_path):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    small_model()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(check_records.Path, "home", raising(RuntimeError("there is no home")))
    forget()
    assert check_records.folder(DEVICE) is None
    small_model()
    assert all(self_check.agreements.values())


TWO_PROCESSES = """
import sys, torch
sys.path[:0] = sys.argv[1].split(":")
import test_self_check as tests
from ea_fairseq.kernels import evolve
evolve.is_fused, evolve.kernels = (lambda maps, exact: True), (lambda device: tests.triton_evolution)
tests.triton_evolution.backward = tests.changed("backward", 1.0)
print("ready", flush=True)
sys.stdin.readline()
tests.assert_close(tests.small_model(), tests.by_pytorch())
print(True)
"""


def test_two_processes_that_check_at_once_leave_whole_records(tmp_path):
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": folders}
    command = [sys.executable, "-c", TWO_PROCESSES, folders]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        printed, said = process.communicate()
        assert printed == "True\n", said
        assert said.count("PyTorch computes instead") == 1
    records = sorted(check_records.folder(DEVICE).iterdir())
    assert [json.loads(path.read_text())["problem"] == "" for path in records] == [False, True]


def test_new_sources_are_checked_anew(monkeypatch, tmp_path):
    before = check_records.folder(DEVICE)
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/kernels.py").touch()
    monkeypatch.setattr(check_records, "KERNELS", tmp_path)
    check_records.folder.cache_clear()
    assert check_records.folder(DEVICE).parent == before.parent
    assert check_records.folder(DEVICE) != before


def test_nothing_is_checked_while_a_cuda_graph_is_captured(monkeypatch):
    maps = mock.Mock(is_cuda=True, device=DEVICE, dtype=torch.float32, shape=(1, 2, 3, 4))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(self_check, "compare", raising(AssertionError("is checked")))
    arguments = mock.Mock(weight=None, mix=None, above=0, left=0)
    for backend, used in (("auto", False), ("triton", True)):
        monkeypatch.setattr(dispatch, "backend", backend)
        assert self_check.passes("forward", maps, arguments) == used
    assert not self_check.agreements


def test_nothing_is_checked_while_a_graph_is_compiled(monkeypatch, caplog):
    def compare(*args):
        assert not torch.compiler.is_compiling()
        return "differs"

    monkeypatch.setattr(self_check, "compare", compare)
    expected = by_pytorch()
    for found in torch.compile(small_model, backend="aot_eager")(), small_model():
        assert_close(found, expected)
    assert sum("PyTorch computes instead" in record.message for record in caplog.records) == 2  # forward and backward


@native_only
def test_native_code_is_not_checked(monkeypatch):
    monkeypatch.setattr(evolve, "kernels", REAL_KERNELS)
    monkeypatch.setattr(self_check, "compare", raising(AssertionError("is checked")))
    small_model()
    assert not self_check.agreements


def kinds() -> st.SearchStrategy[Kind]:
    """Kinds of kernels as models want them, of few heads: interpreted, a kernel takes its time."""

    def of(step, dtype, heads, kernel, window, operands, is_learned, keys):
        tiling = Tiling.of(heads, 30, keys)
        left, _, above, _ = WINDOWS[window].padding(kernel or 1)
        is_learned = is_learned and step == "backward"
        return Kind(
            step, dtype, heads, kernel, above, left, operands, is_learned, tiling.rows, tiling.columns, tiling.warps
        )

    names = ("padded_keys", "padded_queries", "future", "previous")
    operands = st.sets(st.sampled_from(names)).map(lambda chosen: tuple(sorted(chosen)))
    return st.builds(
        of,
        st.sampled_from(STEPS),
        st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
        st.sampled_from([1, 3, 4]),
        st.sampled_from([0, 1, 3, 5]),
        st.sampled_from(list(WINDOWS)),
        operands,
        st.booleans(),
        st.sampled_from([7, 30, 70]),
    )


@pytest.mark.slow
@given(kind=kinds())
@settings(max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_right_kernels_of_all_kinds_pass_with_room_to_spare(kind):
    """The interpreter's errors are within half of what is allowed."""
    with mock.patch.object(sample_maps, "tolerance", lambda kind, tolerance=sample_maps.tolerance: tolerance(kind) / 2):
        assert self_check.compare(kind, DEVICE) == ""


def test_one_check_covers_each_difference_between_compiled_kernels():
    """Operands, types, learned weights, tiles: another of these is another kernel."""
    kind = Kind("forward", torch.float32, 4, 3, 1, 1, (), False, 8, 32, 8)
    others = [
        kind._replace(step="backward"),
        kind._replace(dtype=torch.float16),
        kind._replace(heads=8),
        kind._replace(kernel=5),
        kind._replace(above=2),
        kind._replace(operands=("previous",)),
        kind._replace(is_learned=True),
        kind._replace(rows=4, columns=64),
    ]
    assert len({other.name for other in [kind, *others]}) == len(others) + 1
