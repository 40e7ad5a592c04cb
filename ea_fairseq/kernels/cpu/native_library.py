"""The native code for CPUs: one shared library, which the installation compiles if there is a C compiler."""

import ctypes
import os
import shlex
import struct
import sys
from ctypes import POINTER, c_char_p, c_int, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ea_fairseq.kernels.cpu.interface import FUNCTIONS, Interface, checksum
from ea_fairseq.plain.precisions import REDUCED

FOLDER = Path(__file__).parent
INSTRUCTION_SETS = ("avx512", "avx2", "plain")  # the widest first
ELF = b"\x7fELF\2" + (b"\1" if sys.byteorder == "little" else b"\2")  # of 64 bits and of this byte order


class LibraryError(Exception):
    """A library cannot be used; the message continues a sentence that begins with the file's name."""


def find(folder: Path) -> tuple[ctypes.CDLL | None, str | None]:
    """The first usable library in a folder; otherwise None and the reasons why those in it are not usable."""
    refused = []
    for path in sorted(folder.glob("_native*.so")):
        try:
            return load(path), None
        except LibraryError as error:
            refused.append(f"{path} {error}")
    return None, " and ".join(refused) or "the native code was not compiled"


def load(path: Path) -> ctypes.CDLL:
    """Loads a library; no function is called before the interface has been checked.

    Raises:
        LibraryError: if it cannot be loaded or is of another version.
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
    """Whether a library is shorter than its ELF headers say; reading beyond its end would kill the process.

    Raises:
        OSError: if it cannot be read.
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
    """Declares the argument and return types of the functions for this processor.

    Raises:
        AttributeError: if a function is missing.
    """
    native.instruction_set.restype = c_char_p
    widest = INSTRUCTION_SETS.index(native.instruction_set().decode())
    for instructions in INSTRUCTION_SETS[widest:]:
        for name, fields in FUNCTIONS.items():
            function = getattr(native, f"{name}_{instructions}")
            function.argtypes, function.restype = [POINTER(fields)], c_int
    native.reduced_instruction_set.restype = c_char_p
    for precision in REDUCED:
        if instructions := native.reduced_instruction_set(precision == "int8"):
            getattr(native, f"translate_{instructions.decode()}").argtypes = [POINTER(FUNCTIONS["translate"])]


def remedy() -> str:
    """The advice for users without a usable library."""
    root = FOLDER.parents[2]
    sources = f"--editable {shlex.quote(os.fspath(root))}" if (root / "setup.py").is_file() else "FOLDER-OF-ITS-SOURCES"
    return f"install ea_fairseq again where there is a C compiler: `pip install --force-reinstall --no-deps {sources}`"


# The reference backend needs no library, so that it works with a broken one.
LIBRARY, WHY_NOT = (None, None) if os.environ.get("EA_BACKEND") == "reference" else find(FOLDER)


@cache
def instruction_set() -> str:
    """The widest instruction set that both this processor and the library support."""
    assert LIBRARY is not None
    return LIBRARY.instruction_set().decode()


@cache
def reduced_instruction_set(precision: str) -> str | None:
    """The instruction set for linear layers in a precision; None for float32, and if processor or library have none."""
    if LIBRARY is None or precision not in REDUCED:
        return None
    found = LIBRARY.reduced_instruction_set(precision == "int8")
    return found.decode() if found else None


@cache
def parallel() -> int | None:
    """The address of GOMP_parallel in the OpenMP runtime that torch has loaded, so that kernels use torch's threads.

    A second runtime would have its own threads, and the waiting threads of both would compete for the cores.
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
def function(name: str, instructions: str) -> Any:
    """A function of the library for an instruction set."""
    return getattr(LIBRARY, f"{name}_{instructions}")
