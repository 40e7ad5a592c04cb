"""The native code compiles with each compiler that is here, and an installation says what it compiled with."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ROOT, run
from needs import COMPILERS

NATIVE = ROOT / "ea_fairseq" / "kernels" / "cpu"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_has_nothing_to_say_of_the_native_code(compiler, tmp_path):
    sources = sorted(NATIVE.glob("*.c"))
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fPIC", "-c"]
    compiled = subprocess.run([compiler, *flags, *sources], cwd=tmp_path, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)


@pytest.fixture
def sources(tmp_path):
    """What installing reads, in a folder of its own; nothing of the native code but a file that compiles at once."""
    for name in ("setup.py", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    native = tmp_path / "ea_fairseq" / "kernels" / "cpu"
    native.mkdir(parents=True)
    for name in ("instruction_set.c", "translation.h", "evolution_fields.h", "workers.h"):
        shutil.copy(NATIVE / name, native)
    return tmp_path


def build(folder: Path, compiler: str) -> tuple[str, list[Path]]:
    """What building says, and the libraries that it leaves."""
    result = run(Path(sys.executable).name, "setup.py", "-q", "build_ext", "--inplace", cwd=folder, CC=compiler)
    assert result.returncode == 0, result.stderr
    return result.stdout, list((folder / "ea_fairseq").rglob("*.so"))


@pytest.mark.parametrize(
    ("compiler", "reason"), [("false", "false failed, see above"), ("no-such-compiler", "there is no no-such-compiler")]
)
def test_installing_needs_no_compiler_and_says_so(sources, compiler, reason):
    said, libraries = build(sources, compiler)
    assert said == f"native code NOT compiled ({reason}): evolving attention will run in plain PyTorch, slower\n"
    assert libraries == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_installing_says_what_it_compiled_with_and_replaces_a_library_that_looks_newer(sources, compiler):
    library = sources / "ea_fairseq" / "kernels" / "cpu" / "_native.so"
    library.write_bytes(b"")
    said, libraries = build(sources, compiler)
    assert said == f"native code compiled with {compiler}\n"
    assert libraries == [library]
    assert library.stat().st_size > 0
