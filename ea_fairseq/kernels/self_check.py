"""Before a process uses a kernel in Triton, the kernel is compared with PyTorch; if they differ, PyTorch computes."""

import logging
import threading

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.check_records import Record, device_name
from ea_fairseq.kernels.kind import Kind
from ea_fairseq.kernels.sample_maps import SampleMaps
from ea_fairseq.kernels.triton import evolution as triton_evolution

agreements: dict[tuple[torch.device, Kind], bool] = {}  # of this process
warned: set[str] = set()
checking = threading.Lock()


def passes(
    step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None = None, is_learned: bool = False
) -> bool:
    """Whether Triton may compute a step of these maps (B, K, T, S); a kernel is checked before its first use.

    While a CUDA graph is captured nothing can be checked: PyTorch takes what has not been checked before.

    Raises:
        UserError: if the kernel fails and ``EA_BACKEND=triton`` leaves no other choice.
    """
    kind = Kind.of(step, maps, arguments, d_logits, is_learned)
    key = maps.device, kind
    found = agreements.get(key)
    if found is not None:
        return found
    if maps.is_cuda and torch.cuda.is_current_stream_capturing():
        return dispatch.backend == "triton"
    with checking:
        if key not in agreements:
            agreements[key] = check(kind, maps.device)
    return agreements[key]


def check(kind: Kind, device: torch.device) -> bool:
    """Whether the kernel agrees with PyTorch, by an earlier check or a new one.

    Raises:
        UserError: see :func:`passes`; or if the check has left the GPU unusable for this process.
    """
    record = Record.of(device, kind.name)
    problem = record.problem()
    if problem is None:
        problem = record.run(kind.title, lambda: compare(kind, device))
    if not problem:
        return True
    sentence = f"on {device_name(device)}, Triton's kernel ({kind.title}) {problem}"
    if not is_usable(device):
        raise UserError(f"{sentence} and leaves the GPU unusable: start again, and PyTorch computes instead")
    if dispatch.backend == "triton":
        raise UserError(f"{sentence}: without EA_BACKEND=triton, PyTorch computes instead")
    if kind.title not in warned:
        warned.add(kind.title)
        logging.getLogger(__name__).warning(
            f"{sentence}; PyTorch computes instead; EA_BACKEND=reference says so from the start"
        )
    return False


def is_usable(device: torch.device) -> bool:
    """Whether a GPU still computes for this process: not after a kernel that has read or written beyond its memory."""
    try:
        return torch.ones(1, device=device).sum().item() == 1
    except RuntimeError:
        return False


def compare(kind: Kind, device: torch.device) -> str:
    """Runs a kernel on small maps and compares what it returns with PyTorch's, in float64 on the same device.

    Returns:
        What is wrong, the end of a sentence that begins with the kernel; empty if nothing is.

    Raises:
        torch.OutOfMemoryError: which does not depend on the kernel.
    """
    maps = SampleMaps.small(kind, device)
    try:
        found = maps.compute(triton_evolution, tiling=maps.tiling)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return f"fails ({type(error).__name__}: {first_line(error)})"
    return next((str(difference) for difference in maps.differences(found) if not difference.is_rounding), "")


def first_line(error: Exception) -> str:
    """The beginning of an error's message, for a sentence."""
    line = (str(error).strip().splitlines() or ["no message"])[0][:200]
    return "".join(character if character.isprintable() else "?" for character in line)
