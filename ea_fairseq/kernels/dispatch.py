"""Who computes the evolution of logits: kernels of our own, or plain PyTorch, the reference."""

import logging
import os
from functools import cache

import torch
from torch import Tensor

from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.cpu.library import LIBRARY, WHY_NOT, remedy
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.user_error import UserError

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
        return LIBRARY is not None and query.dtype in native_evolution.DTYPES
    if query.device.type == "cuda" or backend == "triton":
        return triton_evolution.AVAILABLE and backend != "native" and query.dtype in triton_evolution.DTYPES
    return False


def is_native(query: Tensor) -> bool:
    """Whether native code takes a whole attention of such queries."""
    return is_fused(query, exact=True) and query.is_cpu and backend != "triton"


def who_computes(query: Tensor) -> str:
    """Who takes an attention of such queries, for people to read."""
    if is_native(query):
        return "native code"
    return "Triton" if is_fused(query) else "plain PyTorch"


def refusal() -> str | None:
    """A sentence that says why EA_BACKEND cannot be as it is, where that is so."""
    if backend not in BACKENDS:
        return f"EA_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, not {backend!r}"
    if backend == "native" and LIBRARY is None:
        return f"EA_BACKEND=native is not possible because {WHY_NOT}; {remedy()}"
    if backend == "triton" and not triton_evolution.AVAILABLE:
        return "EA_BACKEND=triton needs Triton: pip install triton"
    return None


def check_backend() -> None:
    """Says once where kernels are missing.

    Raises:
        UserError: where EA_BACKEND names what is not there.
    """
    if sentence := refusal():
        raise UserError(sentence)
    if backend == "auto" and LIBRARY is None and not torch.cuda.is_available():
        say_slow()


@cache
def say_slow() -> None:
    logging.getLogger(__name__).warning(
        f"evolving attention runs in plain PyTorch, with the same results but slower, because {WHY_NOT}; {remedy()}"
    )
