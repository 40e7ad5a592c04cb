"""The C compilers of this machine, for tests that compile."""

import shutil

import pytest

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
COMPILER = next(filter(None, map(shutil.which, (*COMPILERS, "cc"))), None)
needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C compiler: gcc, clang or cc")
