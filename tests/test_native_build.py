"""The native code compiles with each compiler that is here, and what is installed works away from the checkout."""

import shutil
import subprocess

import pytest

from commands import ROOT

NATIVE = ROOT / "ea_fairseq" / "native"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_has_nothing_to_say_of_the_native_code(compiler, tmp_path):
    sources = sorted(NATIVE.glob("*.c"))
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fPIC", "-c"]
    compiled = subprocess.run([compiler, *flags, *sources], cwd=tmp_path, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)
