"""What of a step does not depend on the clock: operations, what is saved for the backward pass, memory."""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

UNDECLARED_VIEWS = ("aten::_unsafe_view", "aten::_reshape_alias")


class OperationCount(TorchDispatchMode):
    """Counts the operations that are dispatched to a device and are no views."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.operations += not (operation.is_view or operation.name() in UNDECLARED_VIEWS)
        return operation(*args, **(kwargs or {}))


def count_operations(step: Callable[[], object]) -> int:
    """How many operations of torch a step takes, views not counted."""
    with OperationCount() as count:
        step()
    return count.operations


def saved_for_backward(forward: Callable[[], object], parameters: Iterable[Tensor]) -> int:
    """Bytes of the storages that a forward pass keeps for the backward pass, each once, parameters left out."""
    ours = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = forward()
    del outputs  # until here it held what was kept, so that no address was used twice
    return sum(size for address, size in sizes.items() if address not in ours)


def memory(device: torch.device, name: str) -> int:
    """Bytes of memory in use: now (``VmRSS``) or, since the process began, at most (``VmHWM``)."""
    if device.type == "cuda":
        now = name == "VmRSS"
        return torch.cuda.memory_allocated(device) if now else torch.cuda.max_memory_allocated(device)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
