"""The native code for CPUs: one shared library, which installing compiles where there is a C compiler."""

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

PASSES = ("evolve", "evolve_backward", "attend", "attend_backward")
INSTRUCTION_SETS = ("avx512", "avx2", "plain")  # the widest first


class Evolution(Structure):
    """``struct evolution`` of native/evolution.h."""

    _fields_ = [
        *((name, c_int64) for name in ("sentences", "heads", "queries", "keys", "kernel", "above", "left")),
        *((name, c_double) for name in ("scale", "alpha", "beta")),
        ("bf16", c_int64),
        *((name, c_void_p) for name in ("scores", "previous", "logits", "probabilities", "mixed", "active")),
        *((name, c_void_p) for name in ("weight", "bias", "padded_keys", "padded_queries", "later")),
        *((name, c_void_p) for name in ("d_logits", "d_probabilities", "d_scores", "d_previous")),
        *((name, c_void_p) for name in ("d_weight", "d_bias")),
        *((name, c_int64) for name in ("width", "query_step", "key_step")),
        *((name, c_void_p) for name in ("query", "key", "value", "d_attended", "attended", "sums")),
        *((name, c_void_p) for name in ("d_query", "d_key", "d_value")),
        ("parallel", c_void_p),
        ("threads", c_int64),
    ]


def load() -> ctypes.CDLL | None:
    for path in sorted(Path(__file__).parent.glob("_native*.so")):
        native = ctypes.CDLL(os.fspath(path))
        native.instruction_set.restype = c_char_p
        for name in INSTRUCTION_SETS:
            for function in (f"{pass_}_{name}" for pass_ in PASSES):
                getattr(native, function).argtypes = [POINTER(Evolution)]
                getattr(native, function).restype = c_int
        return native
    return None


LIBRARY = load()  # None where it was not compiled


@cache
def instruction_set() -> str:
    """The widest instruction set of this processor that there is code for."""
    return LIBRARY.instruction_set().decode()


@cache
def parallel() -> int | None:
    """Address of GOMP_parallel in the OpenMP runtime that torch has loaded, so that its threads do our work, too.

    A runtime of our own would have other threads, and both kinds wait for work by spinning.
    """
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
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


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def call(name: str, instructions: str | None = None, **fields) -> None:
    """Calls ``evolve`` or ``evolve_backward`` with the fields of :class:`Evolution`; tensors are given as such.

    Raises:
        MemoryError: where there is no memory for the maps of a few rows.
    """
    values = {key: address(value) if isinstance(value, Tensor) else value for key, value in fields.items()}
    evolution = Evolution(**values, parallel=parallel(), threads=torch.get_num_threads())
    if getattr(LIBRARY, f"{name}_{instructions or instruction_set()}")(evolution):
        raise MemoryError("there is no memory for the rows of an attention map")
