"""Which backend computes, and what to say where it is missing."""

import logging
from functools import cache

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch, triton
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.dispatch import BACKENDS, is_fused, is_native


def who_computes(query: Tensor) -> str:
    """Who takes an attention of such queries, for people to read."""
    if is_native(query):
        return "native code"
    return "Triton" if is_fused(query) else "plain PyTorch"


def refusal() -> str | None:
    """A sentence that says why EA_BACKEND cannot be as it is, where that is so."""
    backend = dispatch.backend
    if backend not in BACKENDS:
        return f"EA_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, not {backend!r}"
    if backend == "native" and native_library.LIBRARY is None:
        return f"EA_BACKEND=native is not possible because {native_library.WHY_NOT}; {native_library.remedy()}"
    if backend == "triton" and not triton.AVAILABLE:
        return "EA_BACKEND=triton needs Triton: pip install triton"
    return None


def check_backend() -> None:
    """Says once where kernels are missing.

    Raises:
        UserError: where EA_BACKEND names what is not there.
    """
    if sentence := refusal():
        raise UserError(sentence)
    if dispatch.backend == "auto" and native_library.LIBRARY is None and not torch.cuda.is_available():
        say_slow()


@cache
def say_slow() -> None:
    """Warns, once, that plain PyTorch computes, and why."""
    reason, remedy = native_library.WHY_NOT, native_library.remedy()
    logging.getLogger(__name__).warning(
        f"evolving attention runs in plain PyTorch, with the same results but slower, because {reason}; {remedy}"
    )
