"""A library that does not fit is not called: plain PyTorch does the work, and one sentence says what to do."""

import ctypes
import os
import re
import shutil
import subprocess
from ctypes import sizeof
from pathlib import Path

import pytest

from commands import PLUGIN
from ea_fairseq.kernels.cpu import interface as native_interface
from ea_fairseq.kernels.cpu.interface import FUNCTIONS, Interface
from ea_fairseq.kernels.cpu.native_library import (
    INSTRUCTION_SETS,
    LIBRARY,
    find,
    instruction_set,
    reduced_instruction_set,
)
from ea_fairseq.kernels.cpu.structs import HEADERS, STRUCTS, read_structs
from forked import run_forked
from model_checks import native_only
from needs import COMPILER, needs_compiler

# Functions that must not be called.
DEADLY = "#include <stdlib.h>\nconst char *instruction_set(void) { abort(); }\n" + "".join(
    f"int {name}_{instructions}(void *fields) {{ abort(); }}\n"
    for instructions in INSTRUCTION_SETS
    for name in FUNCTIONS
)
INTERFACE = "const long ea_fairseq_interface[5] = {{{}, {}, {}, {}, 0}};\n"
VERSION, SIZES = native_interface.VERSION, [sizeof(STRUCTS[name]) for name in ("fused_arguments", "step")]
COMPILED = {
    "without an interface": DEADLY,
    "of another version": DEADLY + INTERFACE.format(VERSION + 1, *SIZES, 0),
    "of another size of fused arguments": DEADLY + INTERFACE.format(VERSION, SIZES[0] + 8, SIZES[1], 0),
    "of another size of step": DEADLY + INTERFACE.format(VERSION, SIZES[0], SIZES[1] - 8, 0),
    "of other sources": DEADLY + INTERFACE.format(VERSION, *SIZES, 1),
    "without functions": 'const char *instruction_set(void) { return "plain"; }\n'
    + INTERFACE.format(VERSION, *SIZES, 0),
    "of another program": "int answer(void) { return 42; }\n",
}
FILES = {"empty": b"", "text": b"not a library\n" * 9, "the beginning of a library": b"\x7fELF\2\1\1" + bytes(9)}
KINDS = [*COMPILED, *FILES, "for another machine", "cut short", "a folder", "a pipe", "a link to nothing"]
USE = """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stderr, force=True)
sys.path.insert(0, sys.argv[0])
import ea_fairseq
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.cpu import native_library
from laws import draw
from tiny import build_loud
assert ea_fairseq.__file__.startswith(sys.argv[0])
for _ in range(2):
    model = build_loud()
    model(*draw(1)[1:2], None, draw(1)[2])[0].sum().backward()
print("trained with", native_library.LIBRARY)
backend.backend = "native"
try:
    build_loud()
except UserError as error:
    print(error)
"""
LOAD_ALL = """
import sys
from pathlib import Path
from ea_fairseq.kernels.cpu.native_library import LibraryError, load
for path in Path(sys.argv[0]).iterdir():
    try:
        load(path)
    except LibraryError:
        pass
"""


def compiled(code: str, path: Path) -> Path:
    subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-o", path, "-"], input=code, text=True, check=True)
    return path


def put(kind: str, path: Path) -> None:
    """Puts what is not our library where that would lie."""
    if kind in COMPILED:
        compiled(COMPILED[kind], path)
    elif kind in FILES:
        path.write_bytes(FILES[kind])
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link to nothing":
        path.symlink_to("nothing.so")
    else:
        library = bytearray(compiled(DEADLY, path).read_bytes())
        if kind == "for another machine":
            library[18:20] = b"\xf3\0" if library[18:20] != b"\xf3\0" else b"\x3e\0"
        else:
            del library[len(library) // 3 :]
        path.write_bytes(library)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A folder with a copy of the package, compiled from the same sources."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PLUGIN, folder / "ea_fairseq", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return folder


@pytest.fixture
def library(copied):
    """Where a library goes in the copy."""
    path = copied / "ea_fairseq" / "kernels" / "cpu" / "_native.so"
    yield path
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def use(folder: Path, **environment):
    """Trains a model with the copied package; returns what was printed and what was said."""
    result = run_forked(folder, cwd=folder, code=USE, **{"EA_BACKEND": "auto", **environment})
    assert result.returncode == 0, result
    return result.stdout.splitlines(), result.stderr.splitlines()


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_is_not_used(copied, library, kind):
    put(kind, library)
    printed, said = use(copied)
    reason = f"because {library} (is|cannot be) .*; install ea_fairseq again .*: `pip install .*`"
    assert printed[0] == "trained with None"
    assert re.fullmatch(f"EA_BACKEND=native is not possible {reason}", printed[1])
    assert len(said) == 1
    assert re.fullmatch(f"evolving attention runs in plain PyTorch, .*, {reason}", said[0])


@needs_compiler
@pytest.mark.parametrize("kind", ["without an interface", "cut short"])
def test_the_reference_needs_none(copied, library, kind):
    put(kind, library)
    printed, said = use(copied, EA_BACKEND="reference")
    assert printed[0] == "trained with None"
    assert said == []


@native_only
def test_the_first_that_fits_is_taken(tmp_path):
    (tmp_path / "_native.a.so").write_bytes(b"")
    for name in ("_native.b.so", "_native.c.so"):
        (tmp_path / name).symlink_to(LIBRARY._name)
    found, why_not = find(tmp_path)
    assert found._name == str(tmp_path / "_native.b.so")
    assert why_not is None


def test_all_that_do_not_fit_are_named(tmp_path):
    assert find(tmp_path) == (None, "the native code was not compiled")
    for name in ("_native.a.so", "_native.b.so"):
        (tmp_path / name).write_bytes(b"")
    found, why_not = find(tmp_path)
    assert found is None
    assert why_not.count(f"{tmp_path}/_native.") == 2


@native_only
@pytest.mark.parametrize("changed", ["fused_arguments.h", "workers.c"])
def test_a_library_of_earlier_sources_does_not_fit(tmp_path, changed):
    (tmp_path / "_native.so").symlink_to(LIBRARY._name)
    assert find(tmp_path)[0] is not None  # where no sources are, as in a wheel
    for source in (PLUGIN / "kernels" / "cpu").glob("*.[ch]"):
        shutil.copy(source, tmp_path)
    assert find(tmp_path)[0] is not None
    with (tmp_path / changed).open("a") as file:
        file.write("// changed since\n")
    assert find(tmp_path) == (None, f"{tmp_path}/_native.so is not of this version of ea_fairseq")


@native_only
def test_no_cut_of_the_library_kills_who_loads_it(tmp_path):
    whole = Path(LIBRARY._name).read_bytes()
    for size in [*range(0, 4096, 61), *range(4096, len(whole), len(whole) // 97)]:
        (tmp_path / f"_native.{size}.so").write_bytes(whole[:size])
    result = run_forked(tmp_path, cwd=tmp_path, code=LOAD_ALL)
    assert result.returncode == 0, result


@needs_compiler
def test_structs_are_what_the_compiler_makes_of_them(tmp_path):
    """Places and sizes of all fields, and nothing beside them."""
    rows = ""
    for name, struct in STRUCTS.items():
        for field, _ in struct._fields_:
            rows += f"offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field}), "
        rows += f"sizeof(struct {name}), "
    headers = "".join(f'#include "{PLUGIN}/kernels/cpu/{header}"\n' for header in HEADERS)
    code = f"#include <stddef.h>\n{headers}const long table[] = {{{rows}}};\n"
    own = []
    for struct in STRUCTS.values():
        places = [(getattr(struct, field).offset, getattr(struct, field).size) for field, _ in struct._fields_]
        own += [*sum(places, ()), sizeof(struct)]
        assert sum(size for _, size in places) == sizeof(struct)
    library = ctypes.CDLL(compiled(code, tmp_path / "table.so"))
    assert list((ctypes.c_long * len(own)).in_dll(library, "table")) == own
    assert {"thread_pool", "fused_arguments", "step", "translation"} < set(STRUCTS)


@pytest.mark.parametrize(
    "declaration",
    [
        "float x",
        "int x",
        "char *name",
        "int64_t x[2]",
        "int64_t x : 1",
        "struct other x",
        "int64_t",
        "#define X\nint64_t x",
    ],
)
def test_what_the_reader_of_structs_does_not_know_is_refused(declaration, tmp_path):
    for body in (f"int64_t y;\n{declaration};\n", f"int64_t y;\n{declaration}\n"):
        (tmp_path / "one.h").write_text(f"struct one {{\n{body}}};\n")
        with pytest.raises(ValueError, match=r"declaration|type|ends with"):
            read_structs(tmp_path, ("one.h",))


@native_only
def test_the_library_tells_of_itself():
    told = Interface.of(LIBRARY)
    assert (told.version, told.fused_arguments, told.step) == (VERSION, *SIZES)
    assert told.sources == native_interface.checksum(PLUGIN / "kernels" / "cpu") != 0
    assert re.fullmatch(r"(gcc|clang) \d+\.\d.*", told.compiler.decode())


def test_a_processor_is_asked_for_all_that_code_for_it_needs():
    """Code for a wider set may use what the narrower one needs, too."""
    asked = (PLUGIN / "kernels" / "cpu" / "instruction_set.c").read_text()
    for instructions in ("avx2", "avx512"):
        source = (PLUGIN / "kernels" / "cpu" / f"{instructions}.c").read_text()
        targets = re.findall(r'target\("(.*?)"\)', source)
        assert len(targets) == 2  # one for clang and one for gcc
        assert len(set(targets)) == 1
        for feature in targets[0].split(","):
            assert f"bit_{feature.upper()}" in asked


@native_only
@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="needs Linux, which lists a processor's features")
def test_the_library_finds_the_instruction_sets_that_linux_lists():
    features = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    avx2, avx512 = {"avx2", "fma"}, {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    widest = "plain" if not avx2 <= features else "avx512" if avx512 <= features else "avx2"
    assert instruction_set() == widest
    tiles = {"amx_tile", "amx_bf16", "amx_int8"}
    for precision, feature in {"bfloat16": "avx512_bf16", "int8": "avx512_vnni"}.items():
        found = reduced_instruction_set(precision)
        assert found is None or feature in features
        assert not (found or "").startswith("amx") or tiles <= features
