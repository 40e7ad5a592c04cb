"""scripts/check_gpu.sh finds what is wrong on a GPU, whatever that is; without a GPU, on the CPU."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch

from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.gpu_check import check_gpu, kernels, trainings, updates
from ea_fairseq.experiments.gpu_check.rows import Part, Row, page
from ea_fairseq.experiments.gpu_check.settings import Settings, largest_difference
from ea_fairseq.experiments.runs.recipe import model_flags
from model_checks import native_only

CPU = Settings(torch.device("cpu"), Path("text"), Path("data"))
SCRIPT = ROOT / "scripts/check_gpu.sh"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A training that fails leaves a folder where it runs."""
    monkeypatch.chdir(tmp_path)


def run_part(program: str, folder: Path, seconds: float = 30) -> Part:
    """A part whose process runs a program of Python."""
    part = Part("one", "One part")
    deadline = time.monotonic() + seconds
    check_gpu.run(part, [sys.executable, "-c", program], folder / "log", deadline)
    return part


GOOD, BAD = Row("good", {"figure": "1"}), Row("bad", {"other": "2|3"}, "differs")


def test_rows_are_there_as_soon_as_they_are_found(tmp_path, capsys):
    part = run_part(f"print({GOOD.to_line()!r}); print({BAD.to_line()!r})", tmp_path)
    assert part.rows == [GOOD, BAD]
    assert (part.state, part.agrees) == ("done", False)
    assert capsys.readouterr().out == "  good: figure 1\n  bad: other 2|3\n    WRONG: differs\n"


def test_a_part_that_crashes_keeps_its_rows_and_says_what_it_said_last(tmp_path):
    program = f"import os, sys; print({GOOD.to_line()!r}, flush=True); print('CUDA error', file=sys.stderr, flush=True)"
    part = run_part(f"{program}; os.abort()", tmp_path)
    assert part.rows == [GOOD]
    assert (part.state, part.agrees) == ("failed", False)
    assert part.problem == f"its process ended with -6 (CUDA error): see {tmp_path / 'log'}"


def test_a_part_ends_with_the_time_and_so_does_all_that_it_started(tmp_path):
    program = f"import subprocess; print({GOOD.to_line()!r}, flush=True); subprocess.run(['sleep', '1000.5'])"
    begin = time.monotonic()
    part = run_part(program, tmp_path, seconds=4)
    assert time.monotonic() - begin < 20
    assert part.rows == [GOOD]
    assert (part.state, part.agrees) == ("out of time", False)
    assert "sleep 1000.5" not in subprocess.run(["ps", "ax"], capture_output=True, text=True).stdout


def test_the_page_shows_every_row_and_problem_in_tables():
    parts = [
        Part("one", "One part", [GOOD, BAD], "done", seconds=2.4),
        Part("two", "Another", [], "failed", "ended\nearly"),
        Part("three", "A third"),
    ]
    assert page("bash scripts/check_gpu.sh", parts) == "\n".join(
        [
            "`bash scripts/check_gpu.sh`",
            "",
            "**One part** (done, 2 s)",
            "",
            "|  | figure | other |",
            "| --- | ---: | ---: |",
            "| good | 1 |  |",
            "| bad |  | 2\\|3 |",
            "",
            "- WRONG: bad: differs",
            "",
            "**Another** (failed, 0 s)",
            "",
            "- WRONG: ended early",
            "",
            "**A third** (not begun)",
            "",
        ]
    )
    assert [part.agrees for part in parts] == [False, False, False]
    assert Part("four", "A fourth", [GOOD], "done").agrees


def test_numbers_that_are_not_finite_are_never_alike():
    assert largest_difference([1.0, 2.0], [1.0, 2.5]) == 0.5
    for spoilt in ([torch.nan, 1.0], [1.0, torch.nan]):
        assert not largest_difference(spoilt, [1.0, 1.0]) <= 1e9


@pytest.fixture
def wrong_kernels(monkeypatch):
    """Kernels, native code for a CPU, that scale by another number than they are told."""
    from ea_fairseq.attention import attention

    attend = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, m, h, scale, *rest: attend(q, m, h, 1.02 * scale, *rest))
    kernel = kernels.kernels("cpu")
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda scores, x: forward(scores, x._replace(scale=1.02 * x.scale)))


@native_only
def test_a_wrong_kernel_is_found(wrong_kernels):
    row = kernels.compare(kernels.ATTENTIONS[0], torch.float32, "lite", CPU)
    assert re.match(r"forward at 1 tokens differs from PyTorch by .* in logits, where rounding explains ", row.problem)
    row = updates.compare("EA", model_flags("ea_transformer_lite"), CPU)
    assert row.problem.startswith("losses differ from PyTorch's by ")


@native_only
def test_right_kernels_agree_with_pytorch_and_a_model_without_them_with_itself():
    for attention in kernels.ATTENTIONS:
        row = kernels.compare(attention, torch.float32, "lite", CPU)
        assert not row.problem
        assert list(row.found) == ["forward, error / allowed", "backward, error / allowed"]


def test_what_fails_is_said_in_the_row(monkeypatch):
    monkeypatch.setattr(kernels, "run", mock.Mock(side_effect=RuntimeError("no kernel image\nis there")))
    row = kernels.compare(kernels.ATTENTIONS[0], torch.float32, "lite", CPU)
    assert row.problem == "forward fails at 1 tokens (RuntimeError: no kernel image)"
    (row,) = trainings.kernels_beside_pytorch(CPU)
    assert row.problem.startswith("fairseq-train ended with 1 (")


def test_without_a_gpu_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["check_gpu.sh", "--out", str(tmp_path / "out")])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="sees no GPU: give --device cpu to try without"):
        check_gpu.main()
    assert not (tmp_path / "out").exists()


def test_without_packages_and_network_it_says_which_are_missing_and_how_to_carry_them(tmp_path):
    """On a machine with PyTorch alone."""
    project = tmp_path / "a project"
    shutil.copytree(ROOT / "scripts", project / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "constraints.txt", "README.md"):
        shutil.copy(ROOT / name, project)
    kernels_folder = project / "ea_fairseq/kernels/cpu"
    kernels_folder.mkdir(parents=True)
    packages = Path("ea_fairseq/experiments/gpu_check/packages.py")
    (project / packages).parent.mkdir(parents=True)
    shutil.copy(ROOT / packages, project / packages)
    for name in ("a.c", "a.h"):
        (kernels_folder / name).touch()
    (tmp_path / "torch.py").touch()
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("python3", "python"):
        (bare / name).write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix) / "bin/python3"}" -S "$@"\n')
        (bare / name).chmod(0o755)
    environment = {
        "PATH": f"{bare}:/usr/bin:/bin",
        "PYTHON": str(bare / "python3"),
        "PYTHONPATH": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "HOME": str(tmp_path),
    }
    result = subprocess.run(["bash", project / "scripts/check_gpu.sh"], env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    version = ".".join(map(str, sys.version_info[:2]))
    assert f"run 'python{version} -m pip wheel --no-deps --wheel-dir .whl fairseq-fixed==0.12.3.1 " in last
    assert " hydra-core==1.3.2 antlr4-python3-runtime==4.9.3 bitarray==" in last
    assert last.endswith(f"copy the folder .whl into {project}, and run the same command again.")


@pytest.mark.slow
def test_all_of_it_agrees_on_a_cpu(tmp_path):
    out = tmp_path / "an out"
    command = ["bash", SCRIPT, "--device", "cpu", "--minutes", "15", "--out", out]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("Everything agrees with PyTorch.\n")
    found = json.loads((out / "gpu.json").read_text())
    assert [part["name"] for part in found["parts"]] == list(check_gpu.TITLES)
    assert all(part["agrees"] and part["rows"] for part in found["parts"])
    for title in check_gpu.TITLES.values():
        assert f"**{title}** (done, " in (out / "gpu.md").read_text()
