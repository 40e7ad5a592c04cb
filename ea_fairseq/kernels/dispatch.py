"""The choice of a backend: which kernels, if any, compute an attention, and what to say if they are missing."""

import logging
import os
from functools import cache

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import cpu, triton
from ea_fairseq.kernels.cpu import native_library

BACKENDS = ("auto", "reference", "native", "triton")
backend = os.environ.get("EA_BACKEND", "auto")


def is_fused(query: Tensor, exact: bool = False) -> bool:
    """Whether kernels take maps of such queries.

    Args:
        exact: probabilities must not be rounded to half precision.
    """
    leaves_torch = torch.compiler.is_exporting() or torch.jit.is_tracing()
    if backend == "reference" or leaves_torch or (exact and query.dtype != torch.float32):
        return False
    if query.is_cpu and backend != "triton":
        return native_library.LIBRARY is not None and query.dtype in cpu.DTYPES
    if query.device.type == "cuda" or backend == "triton":
        return triton.AVAILABLE and backend != "native" and query.dtype in triton.DTYPES
    return False


def is_native(query: Tensor, exact: bool = True) -> bool:
    """Whether native code takes a whole attention of such queries; if not ``exact``, maps of them, in bfloat16 too."""
    return is_fused(query, exact) and query.is_cpu and backend != "triton"


def backend_name(query: Tensor) -> str:
    """The name, for people to read, of what computes an attention of such queries."""
    if is_native(query):
        return "native code"
    return "Triton" if is_fused(query) else "plain PyTorch"


def refusal() -> str | None:
    """A sentence that says why the value of EA_BACKEND is not possible; None if it is."""
    if backend not in BACKENDS:
        return f"EA_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, not {backend!r}"
    if backend == "native" and native_library.LIBRARY is None:
        return f"EA_BACKEND=native is not possible because {native_library.WHY_NOT}; {native_library.remedy()}"
    if backend == "triton" and not triton.AVAILABLE:
        return "EA_BACKEND=triton needs Triton: pip install triton"
    return None


def check_backend() -> None:
    """Warns once if there are no kernels.

    Raises:
        UserError: if EA_BACKEND names what is not there.
    """
    if sentence := refusal():
        raise UserError(sentence)
    if backend == "auto" and native_library.LIBRARY is None and not torch.cuda.is_available():
        warn_slow_fallback()


@cache
def warn_slow_fallback() -> None:
    """Warns, once, that plain PyTorch computes, and why."""
    reason, remedy = native_library.WHY_NOT, native_library.remedy()
    logging.getLogger(__name__).warning(
        f"evolving attention runs in plain PyTorch, with the same results but slower, because {reason}; {remedy}"
    )
