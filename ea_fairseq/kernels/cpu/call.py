"""Calls of the native code: tensors become addresses in the fields of a struct."""

from ctypes import Structure, byref
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.interface import FUNCTIONS

PLAIN = {int, float, bool, NoneType}  # whose values are fields as they are; comparing types is faster than isinstance
RELU_MASK_BITS = 16  # a row of a ReLU mask has a multiple of so many


def call(name: str, size: tuple[int, ...], arguments: FusedArguments, **fields: Tensor | int | None) -> None:
    """Calls a function for maps of a size (B, K, T, S).

    Args:
        name: ``evolve``, ``attend`` or the backward pass of either.
        fields: the other fields of ``struct fused_arguments`` that the function reads.

    Raises:
        MemoryError: if there is none for the rows of a map.
    """
    sizes = dict(zip(("sentences", "heads", "queries", "keys"), size, strict=True))
    fields |= {"kernel": arguments.kernel, "by_word": arguments.by_word}
    run(name, FUNCTIONS[name](**sizes, **addresses({**arguments._asdict(), **fields})))


def run(name: str, fields: Structure) -> None:
    """Calls a function of ``FUNCTIONS`` with its fields, on torch's threads.

    Raises:
        MemoryError: if there is none for the rows of a map.
    """
    fields.parallel, fields.threads = native_library.parallel(), torch.get_num_threads()
    if native_library.function(name, native_library.instruction_set())(byref(fields)):
        raise MemoryError("there is no memory for the rows of an attention map")


def addresses(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the address of each tensor instead of it."""
    return {name: value if type(value) in PLAIN else value.data_ptr() for name, value in fields.items()}


def new_relu_mask(maps: Tensor, weight: Tensor | None) -> Tensor:
    """A bit for each entry of maps (B, K, T, S), all zero; empty without a convolution."""
    return maps.new_zeros((0,) if weight is None else relu_mask_size(maps.shape), dtype=torch.uint8)


def relu_mask_size(size: tuple[int, ...]) -> tuple[int, ...]:
    """The size in bytes of a ReLU mask for maps of a size (B, K, T, S)."""
    *rows, keys = size
    return *rows, -(-keys // RELU_MASK_BITS) * RELU_MASK_BITS // 8
