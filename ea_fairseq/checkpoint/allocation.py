"""A limit for the memory of a model that is built from an untrusted checkpoint, which a small file must not fill."""

from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ea_fairseq.errors import FileError

FACTOR = 8  # elements allocated for each stored one; models of ours take up to 4, with all that is freed again
FREE = 1 << 26  # elements that any model may allocate, such as for tables of positions, which are not stored
LEAST = 1 << 12  # elements that each tensor counts for at least: the objects around it take memory, too


class AllocationLimit(TorchDispatchMode):
    """Refuses to allocate many more elements than a checkpoint stores, while it is entered.

    Each new tensor counts, before it is allocated, also those that are freed soon.

    Args:
        path: the checkpoint.
        parameters: its parameters.
    """

    def __init__(self, path: str | Path, parameters: Iterable[Tensor]):
        super().__init__()
        self.path, self.stored = path, stored_elements(parameters)
        self.left = FACTOR * self.stored + FREE

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch.compile compiles no building of models, and to import it takes a second

    def __torch_dispatch__(
        self, func: Any, types: Collection[type], args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Computes one of torch's operators.

        Raises:
            FileError: if its result would exceed the limit.
        """
        if any(returned.alias_info is None for returned in func._schema.returns):  # neither a view nor in place
            self.left -= max(LEAST, result_elements(args))
        if self.left < 0:
            raise FileError(
                f"{self.path} is refused: its options describe a larger model than its {self.stored:,} numbers allow."
            )
        return func(*args, **(kwargs or {}))


def stored_elements(parameters: Iterable[Tensor]) -> int:
    """Returns the number of elements that parameters store; views of one storage count once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in parameters}
    return sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in storages.values())


def result_elements(args: tuple) -> int:
    """Returns an upper bound of the elements of what an operator makes of its positional arguments."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    try:
        counts = [prod(torch.broadcast_shapes(*(tensor.shape for tensor in tensors)))]
    except RuntimeError:  # they are not combined element by element
        counts = [sum(tensor.numel() for tensor in tensors)]
    for arg in args:
        if isinstance(arg, list | tuple):  # tensors to concatenate, or a shape
            is_shape = all(isinstance(part, int) for part in arg)
            counts.append(prod(arg) if is_shape else sum(part.numel() for part in arg if isinstance(part, Tensor)))
        elif isinstance(arg, int | float) and not tensors:  # such as the end of a range
            counts.append(int(arg))
    return max(counts)
