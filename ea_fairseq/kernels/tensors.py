"""Tensors as kernels read them, who trust their sizes: checked, of one type, and without gaps in memory."""

import torch
from torch import Tensor


def spread(name: str, tensor: Tensor | None, *size: int) -> Tensor | None:
    """The tensor in full size where it has one row or column for all, as PyTorch's operations take it.

    Raises:
        ValueError: naming the tensor, where its size does not spread over ``size``.
    """
    if tensor is None or tensor.shape == size:
        return tensor
    if tensor.dim() != len(size) or any(own not in (1, full) for own, full in zip(tensor.shape, size, strict=True)):
        raise ValueError(f"{name} has the size {tuple(tensor.shape)}, which does not spread over {size}")
    return tensor.expand(size)


def readable(name: str, tensor: Tensor | None, size: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
    """The tensor, or where it has gaps or is a mask of another type than bool, a copy.

    Raises:
        ValueError: naming the tensor, where it has another size; TypeError: where it has another type.
    """
    if tensor is None:
        return None
    if tensor.shape != size:
        raise ValueError(f"{name} must have the size {tuple(size)}, not {tuple(tensor.shape)}")
    if tensor.dtype is not dtype:
        if dtype is not torch.bool:
            raise TypeError(f"{name} must be of {dtype}, not {tensor.dtype}")
        tensor = tensor.bool()
    return tensor.contiguous()


def convolution(
    weight: Tensor | None, bias: Tensor | None, heads: int, above: int, left: int
) -> tuple[Tensor | None, Tensor | None]:
    """Weight (K, K, k, k) and bias (K), both of float32, or None and None.

    Raises:
        ValueError: where the first tap does not lie ``above`` rows and ``left`` columns from an entry, or see above.
    """
    if weight is None and bias is None:
        return None, None
    if weight is None or bias is None:
        raise ValueError("a convolution has a weight and a bias")
    kernel = weight.size(-1)
    if not (0 <= above < kernel and 0 <= left < kernel):
        raise ValueError(f"a kernel of {kernel} cannot begin {above} rows above and {left} columns left of an entry")
    weight = readable("weight", weight, (heads, heads, kernel, kernel), torch.float32)
    return weight, readable("bias", bias, (heads,), torch.float32)


def evolving(
    size: tuple[int, int, int, int],
    dtype: torch.dtype,
    previous: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    padded_keys: Tensor | None,
    padded_queries: Tensor | None,
    later: Tensor | None,
    above: int,
    left: int,
) -> tuple[Tensor | None, ...]:
    """What maps of a size (B, K, T, S) evolve with: previous logits, weight and bias, masks of keys, queries and pairs.

    Raises:
        ValueError, TypeError: see above.
    """
    sentences, heads, queries, keys = size
    return (
        readable("previous", previous, size, dtype),
        *convolution(weight, bias, heads, above, left),
        readable("padded_keys", padded_keys, (sentences, keys), torch.bool),
        readable("padded_queries", padded_queries, (sentences, queries), torch.bool),
        readable("later", later, (queries, keys), torch.bool),
    )
