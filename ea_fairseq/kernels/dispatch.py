"""Backend selection, and the arguments of a kernel: the one list of them, checked and turned into a call."""

import os
from ctypes import Structure, byref
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ea_fairseq.kernels import cpu, triton
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.kernels.fused_logits import FusedLogits

if TYPE_CHECKING:
    from ea_fairseq.kernels.masks import AttentionMasks

BACKENDS = ("auto", "reference", "native", "triton")
TENSORS = 8  # that a kernel's arguments begin with
PLAIN = {int, float, bool, NoneType}  # types of numbers, and of nothing, quicker to tell than a tensor
BITS = 16  # a row of a ReLU mask has a multiple of so many
SCHEMA_TYPES = {Tensor | None: "Tensor?", float: "float", int: "int"}
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


def is_native(query: Tensor) -> bool:
    """Whether native code takes a whole attention of such queries."""
    return is_fused(query, exact=True) and query.is_cpu and backend != "triton"


class FusedArguments(NamedTuple):
    """The arguments that all kernels take after their scores, or after queries, keys and values.

    Args:
        previous: logits of the layer below, (B, K, T, S).
        mix: (2, K), weights of scores and of previous logits; None without previous logits.
        weight, bias, beta: (K, K, k, k), (K) and (K), of the convolution and its output's weight; None without one.
        padded_keys: (B, S), padded_queries: (B, T), true at padding.
        future: (T, S), true where a query must not see a key.
        scale: what scores are multiplied by.
        above, left: those of :class:`FusedLogits`.
    """

    previous: Tensor | None
    mix: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    beta: Tensor | None
    padded_keys: Tensor | None
    padded_queries: Tensor | None
    future: Tensor | None
    scale: float
    above: int
    left: int

    @classmethod
    def of(
        cls,
        fused: FusedLogits,
        scale: float,
        heads: int,
        device: torch.device,
        previous: Tensor | None,
        padded_keys: Tensor | None = None,
        padded_queries: Tensor | None = None,
        future: Tensor | None = None,
    ) -> "FusedArguments":
        """What a mechanism lets kernels compute, of tensors in full size; see above."""
        mix = weight = bias = beta = None
        if not fused.has_skip:
            previous = None
        if previous is not None:
            mix = by_head(heads, device, fused.own_weight, fused.previous_weight)
        if fused.conv is not None:
            weight, bias, beta = fused.conv.weight, fused.conv.bias, by_head(heads, device, fused.beta)
            if weight.dtype is not torch.float32:
                weight, bias = weight.float(), bias.float()
        tensors = previous, mix, weight, bias, beta, padded_keys, padded_queries, future
        return cls(*tensors, scale, fused.above, fused.left)

    @classmethod
    def schema(cls) -> str:
        """The arguments as an operator's schema lists them."""
        return ", ".join(f"{SCHEMA_TYPES[kind]} {name}" for name, kind in cls.__annotations__.items())

    @property
    def is_learned(self) -> bool:
        """Whether weights of heads take gradients, which cost some time."""
        return any(weights is not None and weights.requires_grad for weights in (self.mix, self.beta))

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The arguments that are tensors; they come before the numbers."""
        return self[:TENSORS]

    @property
    def numbers(self) -> tuple[float | int, ...]:
        """The arguments that are numbers."""
        return self[TENSORS:]

    @property
    def kernel(self) -> int:
        """Size k of the convolution's kernel, 1 without one."""
        return 1 if self.weight is None else self.weight.size(-1)

    def checked(self, size: tuple[int, int, int, int], dtype: torch.dtype) -> "FusedArguments":
        """The arguments as kernels read them, for maps of a size (B, K, T, S) and a type.

        Raises:
            ValueError, TypeError: naming what has another size or type than it must have.
        """
        sentences, heads, queries, keys = size
        found = FusedArguments(
            readable("previous", self.previous, size, dtype),
            readable("mix", self.mix, (2, heads), torch.float32),
            *conv_parameters(self.weight, self.bias, self.beta, heads, self.above, self.left),
            readable("padded_keys", self.padded_keys, (sentences, keys), torch.bool),
            readable("padded_queries", self.padded_queries, (sentences, queries), torch.bool),
            readable("future", self.future, (queries, keys), torch.bool),
            *self.numbers,
        )
        return found if found.weight is not None else found._replace(above=0, left=0)


def arguments_of(
    fused: FusedLogits,
    scale: float,
    previous: Tensor | None,
    masks: "AttentionMasks",
    size: tuple[int, int, int, int],
    device: torch.device,
) -> FusedArguments:
    """The arguments for maps of a size (B, K, T, S), which previous logits and masks may have to be spread over.

    Raises:
        ValueError: naming what does not spread.
    """
    sentences, heads, queries, keys = size
    return FusedArguments.of(
        fused,
        scale,
        heads,
        device,
        previous=spread("previous_logits", previous, *size),
        padded_keys=spread("key_padding_mask", masks.padded_keys, sentences, keys),
        padded_queries=spread("query_padding_mask", masks.padded_queries, sentences, queries),
        future=spread("attn_mask", masks.future, queries, keys),
    )


def read_arguments(arguments: FusedArguments, size: tuple[int, int, int, int], dtype: torch.dtype) -> FusedArguments:
    """The arguments as kernels read them, where they also read previous logits.

    Raises:
        ValueError, TypeError: naming what has another size or type than it must have.
    """
    if (arguments.previous is None) != (arguments.mix is None):
        raise ValueError("previous logits and a weight of theirs go together")
    return arguments.checked(size, dtype)


def spread(name: str, tensor: Tensor | None, *size: int) -> Tensor | None:
    """The tensor in full size where it has one row or column for all, as PyTorch broadcasts it.

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


def conv_parameters(
    weight: Tensor | None, bias: Tensor | None, beta: Tensor | None, heads: int, above: int, left: int
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Weight (K, K, k, k), bias (K) and beta (K), all of float32, or None.

    Raises:
        ValueError: where the first tap does not lie ``above`` rows and ``left`` columns from an entry, or see above.
    """
    if weight is bias is beta is None:
        return None, None, None
    if weight is None or bias is None or beta is None:
        raise ValueError("a convolution has a weight, a bias and a beta")
    kernel = weight.size(-1)
    if not (0 <= above < kernel and 0 <= left < kernel):
        raise ValueError(f"a kernel of {kernel} cannot begin {above} rows above and {left} columns left of an entry")
    weight = readable("weight", weight, (heads, heads, kernel, kernel), torch.float32)
    return weight, *(readable(name, x, (heads,), torch.float32) for name, x in (("bias", bias), ("beta", beta)))


def by_head(heads: int, device: torch.device, *weights: float | Tensor) -> Tensor:
    """Weights, each a number or a tensor (K), as kernels read them: (K) of one, (n, K) of several, in float32."""
    if not any(isinstance(weight, Tensor) for weight in weights):
        is_captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if torch.compiler.is_compiling() or is_captured:
            return filled(heads, device, weights)
        return kept_filled(heads, device, weights)
    rows = [weight if isinstance(weight, Tensor) else filled(heads, device, (weight,)) for weight in weights]
    return rows[0].float() if len(rows) == 1 else torch.stack(rows).float()


def filled(heads: int, device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    """The numbers, each for all heads."""
    rows = [torch.full((heads,), number, dtype=torch.float32, device=device) for number in numbers]
    return rows[0] if len(rows) == 1 else torch.stack(rows)


@lru_cache(maxsize=256)
@torch.inference_mode(False)
def kept_filled(heads: int, device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    """The same, made once for all calls, of which some may be in training."""
    return filled(heads, device, numbers)


def save(ctx, output: tuple[Tensor, ...], projections: tuple[Tensor | None, ...], arguments: FusedArguments) -> None:
    """Keeps what a backward operator reads: outputs but the first, queries and memory, and the arguments."""
    ctx.save_for_backward(*output[1:], *projections, *arguments.tensors)
    ctx.numbers = arguments.numbers
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def refuse_second_derivatives(ctx, *_):
    """What a backward operator's own gradients are: none, where torch would take them for zero."""
    raise RuntimeError("kernels have no second derivatives: EA_BACKEND=reference has")


DIFFERENTIATED = ("previous", "mix", "weight", "bias", "beta")  # arguments that may have gradients
D_SCHEMA = ", ".join(f"Tensor d_{name}" for name in DIFFERENTIATED)


def has_gradients(arguments: FusedArguments, is_learned: bool) -> dict[str, bool]:
    """Which of the arguments have gradients, by their names; weights of heads only where they are learned."""
    has_skip, has_conv = arguments.mix is not None, arguments.weight is not None
    found = has_skip, has_skip and is_learned, has_conv, has_conv, has_conv and is_learned
    return dict(zip(DIFFERENTIATED, found, strict=True))


def new_gradients(arguments: FusedArguments, is_learned: bool, maps: Tensor) -> list[Tensor | None]:
    """New tensors for the gradients of arguments, None where there is none; that of previous logits like ``maps``."""
    read = {**arguments._asdict(), "previous": maps}
    return [
        torch.empty_like(read[name], memory_format=torch.contiguous_format) if there else None
        for name, there in has_gradients(arguments, is_learned).items()
    ]


def of_arguments(arguments: FusedArguments, is_learned: bool, *gradients: Tensor) -> FusedArguments:
    """Gradients of an operator's arguments, each in its place, None where there is none."""
    there = has_gradients(arguments, is_learned)
    found = {name: x for (name, has), x in zip(there.items(), gradients, strict=True) if has}
    return FusedArguments(**dict.fromkeys(FusedArguments._fields) | found)


def without_none(gradients, like: Tensor) -> list[Tensor]:
    """Empty tensors, which an operator can return, instead of None."""
    return [like.new_empty(0) if gradient is None else gradient for gradient in gradients]


def call(name: str, size: tuple[int, ...], arguments: FusedArguments, **fields: Tensor | int | None) -> None:
    """Calls a function for maps of a size (B, K, T, S).

    Args:
        name: of ``FUNCTIONS``, but ``decode``.
        fields: the other fields of ``struct fused_arguments`` that the function reads.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    sizes = dict(zip(("sentences", "heads", "queries", "keys"), size, strict=True))
    run(name, FUNCTIONS[name](**sizes, kernel=arguments.kernel, **addresses({**arguments._asdict(), **fields})))


def run(name: str, fields: Structure) -> None:
    """Calls a function of ``FUNCTIONS`` with its fields, on torch's threads.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    fields.parallel, fields.threads = native_library.parallel(), torch.get_num_threads()
    if native_library.function(name, native_library.instruction_set())(byref(fields)):
        raise MemoryError("there is no memory for the rows of an attention map")


def addresses(fields: dict[str, Tensor | float | None]) -> dict[str, float | None]:
    """The fields with the address of each tensor in its place."""
    return {name: value if type(value) in PLAIN else value.data_ptr() for name, value in fields.items()}


def new_relu_mask(maps: Tensor, weight: Tensor | None) -> Tensor:
    """A bit for each entry of maps (B, K, T, S), all zero; empty without a convolution."""
    return maps.new_zeros((0,) if weight is None else relu_mask_size(maps.shape), dtype=torch.uint8)


def relu_mask_size(size: tuple[int, ...]) -> tuple[int, ...]:
    """Of the bytes of a ReLU mask for maps of a size (B, K, T, S)."""
    *rows, keys = size
    return *rows, -(-keys // BITS) * BITS // 8
