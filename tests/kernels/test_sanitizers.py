"""The native code reads and writes nothing but what it is given, and does nothing that C leaves undefined.

It is compiled into a copy of the package with the sanitizers of a compiler, which end a process at the first mistake.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import PLUGIN, ROOT
from model_checks import SETS, native_only

CASES = 1200
FLAGS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fPIC", "-shared"]
RUNTIMES = {"gcc": ["libasan.so", "libubsan.so"], "clang": [f"libclang_rt.asan-{platform.machine()}.so"]}
OPTIONS = {"gcc": [], "clang": ["-shared-libasan"]}
# A mask of one key for maps of four, past the checks of the operators.
MISTAKE = """
import torch
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.arguments import FusedArguments

maps, mask = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, dtype=torch.bool)
native_evolution.forward(maps, FusedArguments(*[None] * 5, mask, None, None, 1.0, 0, 0))
"""

pytestmark = [pytest.mark.slow, native_only]


@pytest.fixture(scope="module", params=list(RUNTIMES))
def run_sanitized(request, tmp_path_factory):
    """Runs Python with the package's copy, whose native code has the sanitizers of a compiler."""
    compiler = request.param
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    folder = tmp_path_factory.mktemp(compiler)
    copy = shutil.copytree(PLUGIN, folder / PLUGIN.name, ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
    sources = sorted((copy / "kernels" / "cpu").glob("*.c"))
    command = [compiler, *FLAGS, *OPTIONS[compiler], "-fvisibility=hidden", "-Wno-psabi", *sources, "-lm"]
    compilation = subprocess.run(
        [*command, "-o", copy / "kernels" / "cpu" / "_native.so"], capture_output=True, text=True
    )
    assert compilation.returncode == 0, compilation.stderr
    runtimes = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in RUNTIMES[compiler]
    ]
    if not all(Path(runtime).is_absolute() for runtime in runtimes):
        pytest.skip(f"the libraries of {compiler}'s sanitizers are not installed")

    def run(*arguments):
        environment = {
            "LD_PRELOAD": " ".join(runtimes),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves much to the end of its process
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",  # else what Python allocates lies side by side, and nobody watches between
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "tests" / "support")]),
            "OMP_NUM_THREADS": "2",
            "EA_BACKEND": "native",
        }
        return subprocess.run(
            [sys.executable, "-P", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    return run


def test_the_sanitizers_see_a_mistake(run_sanitized):
    """Otherwise the test below would say nothing."""
    result = run_sanitized("-c", MISTAKE)
    assert result.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in result.stderr


def test_no_call_of_many_makes_one(run_sanitized):
    result = run_sanitized("-m", "native_cases", CASES, *SETS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{CASES} cases" in result.stdout


def test_no_translation_norm_or_dropout_makes_one(run_sanitized):
    tests = [ROOT / "tests" / "decoding" / f"test_native_{name}.py" for name in ("search", "precisions")]
    tests += [ROOT / "tests" / "kernels" / f"test_{name}.py" for name in ("norm", "dropout")]
    result = run_sanitized("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
