"""The native code for CPUs: one shared library, which installing compiles where there is a C compiler."""

import ctypes
import os
import shlex
import struct
import sys
from ctypes import POINTER, c_char_p, c_int, c_void_p
from functools import cache
from pathlib import Path

import torch

from ea_fairseq.kernels.cpu.interface import FUNCTIONS, Interface, checksum

FOLDER = Path(__file__).parent
INSTRUCTION_SETS = ("avx512", "avx2", "plain")  # the widest first
ELF = b"\x7fELF\2" + (b"\1" if sys.byteorder == "little" else b"\2")  # of 64 bits and of this byte order


class LibraryError(Exception):
    """What is the matter with a library; the file's name comes before the message."""


def find(folder: Path) -> tuple[ctypes.CDLL | None, str | None]:
    """The first library in a folder that fits, or else None and what is the matter with those that are there."""
    refused = []
    for path in sorted(folder.glob("_native*.so")):
        try:
            return load(path), None
        except LibraryError as error:
            refused.append(f"{path} {error}")
    return None, " and ".join(refused) or "the native code was not compiled"


def load(path: Path) -> ctypes.CDLL:
    """Loads a library; nothing in it is called before it is known to fit.

    Raises:
        LibraryError: where it does not.
    """
    try:
        if is_cut_short(path):
            raise LibraryError("is cut short")
        native = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise LibraryError(f"cannot be loaded ({error.strerror or str(error).removeprefix(f'{path}: ')})") from error
    try:
        if not Interface.of(native).fits(checksum(path.parent)):
            raise LibraryError("is not of this version of ea_fairseq")
        declare(native)
    except (AttributeError, ValueError) as error:
        raise LibraryError("is not of this version of ea_fairseq") from error
    return native


def is_cut_short(path: Path) -> bool:
    """Whether a library ends before what its ELF headers announce: reading there kills the process.

    Raises:
        OSError: where it cannot be read.
    """
    if not path.is_file():
        raise OSError("not a file")
    data = path.read_bytes()
    if not data.startswith(ELF):
        return False  # the loader refuses it
    try:
        (headers,), (size, count) = struct.unpack_from("=Q", data, 32), struct.unpack_from("=HH", data, 54)
        segments = [struct.unpack_from("=8xQ16xQ", data, headers + i * size) for i in range(count)]
    except (OverflowError, struct.error):
        return True
    return any(start + length > len(data) for start, length in segments)


def declare(native: ctypes.CDLL) -> None:
    """Tells ctypes of the functions for this processor.

    Raises:
        AttributeError: where one is missing.
    """
    native.instruction_set.restype = c_char_p
    widest = INSTRUCTION_SETS.index(native.instruction_set().decode())
    for instructions in INSTRUCTION_SETS[widest:]:
        for name, fields in FUNCTIONS.items():
            function = getattr(native, f"{name}_{instructions}")
            function.argtypes, function.restype = [POINTER(fields)], c_int
    if native.has_bfloat16():
        native.translate_avx512_bf16.argtypes = [POINTER(FUNCTIONS["translate"])]


def remedy() -> str:
    """What to do where there is no library that fits."""
    root = FOLDER.parents[2]
    sources = f"--editable {shlex.quote(os.fspath(root))}" if (root / "setup.py").is_file() else "FOLDER-OF-ITS-SOURCES"
    return f"install ea_fairseq again where there is a C compiler: `pip install --force-reinstall --no-deps {sources}`"


# The reference needs no library, and a broken one must not keep it from working.
LIBRARY, WHY_NOT = (None, None) if os.environ.get("EA_BACKEND") == "reference" else find(FOLDER)


@cache
def instruction_set() -> str:
    """The widest instruction set of this processor that there is code for."""
    return LIBRARY.instruction_set().decode()


@cache
def has_bfloat16() -> bool:
    """Whether there is code for bfloat16, and this processor can run it."""
    return LIBRARY is not None and bool(LIBRARY.has_bfloat16())


@cache
def parallel() -> int | None:
    """Address of GOMP_parallel in the OpenMP runtime that torch has loaded, so that its threads do our work, too.

    A runtime of our own would have other threads, and both kinds wait for work by spinning.
    """
    mapped = Path("/proc/self/maps")
    if not mapped.exists():
        return None
    with mapped.open(encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "omp" in line}
    torch_folder = os.fspath(Path(torch.__file__).parent)
    for path in sorted(paths, key=lambda path: (not path.startswith(torch_folder), path)):
        if path.endswith(" (deleted)") or "omp" not in Path(path).name:
            continue
        try:
            return ctypes.cast(ctypes.CDLL(path).GOMP_parallel, c_void_p).value
        except (AttributeError, OSError):
            continue
    return None


@cache
def function(name: str, instructions: str):
    """A function of the library for an instruction set."""
    return getattr(LIBRARY, f"{name}_{instructions}")
