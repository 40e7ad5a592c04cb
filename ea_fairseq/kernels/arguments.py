"""The arguments of a kernel: the only list of them, their checks, and which of them have gradients."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks, spread

MapSize = tuple[int, int, int, int]  # B sentences, K heads, T queries, S keys
MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)
TENSORS = 8  # the first fields of FusedArguments are so many tensors
SCHEMA_TYPES: dict[Any, str] = {Tensor | None: "Tensor?", float: "float", int: "int"}
DIFFERENTIATED = ("previous", "mix", "weight", "bias", "beta")  # arguments that may have gradients
D_SCHEMA = ", ".join(f"Tensor d_{name}" for name in DIFFERENTIATED)


class FusedArguments(NamedTuple):
    """The arguments that all kernels take after their scores, or after queries, keys and values.

    Args:
        previous: logits of the layer below, (B, K, T, S).
        mix: (2, K), weights of scores and of previous logits, or (2, B, K, T), of each query; None without previous
            logits.
        weight, bias, beta: (K, K, k, k) and (K), of the convolution, and its output's weight, (K) or (B, K, T); None
            without one.
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
        size: tuple[int, ...],
        device: torch.device,
        previous: Tensor | None,
        masks: AttentionMasks,
    ) -> "FusedArguments":
        """What a mechanism lets kernels compute, for maps of a size (B, K, T, S).

        Args:
            previous: logits of the layer below; they and the masks may have one row or column for all.

        Raises:
            ValueError: naming what cannot be broadcast to the maps' size.
        """
        sentences, heads, queries, keys = size
        weights_size = size[:3] if fused.is_by_word else (heads,)
        mix = weight = bias = beta = None
        if not fused.has_skip:
            previous = None
        if previous is not None:
            previous = spread("previous_logits", previous, *size)
            mix = by_head(heads, device, fused.own_weight, fused.previous_weight).expand(2, *weights_size)
        if fused.conv is not None:
            weight, bias = fused.conv.weight, fused.conv.bias
            beta = by_head(heads, device, fused.beta).expand(weights_size)
            if weight.dtype is not torch.float32:
                weight, bias = weight.float(), None if bias is None else bias.float()
        masks = masks.of_size(sentences, queries, keys)
        tensors = previous, mix, weight, bias, beta, masks.padded_keys, masks.padded_queries, masks.future
        return cls(*tensors, scale, fused.above, fused.left)

    @classmethod
    def schema(cls) -> str:
        """The arguments as an operator's schema lists them."""
        return ", ".join(f"{SCHEMA_TYPES[kind]} {name}" for name, kind in cls.__annotations__.items())

    @property
    def is_learned(self) -> bool:
        """Whether the weights of heads need gradients, which take some time to compute."""
        return any(weights is not None and weights.requires_grad for weights in (self.mix, self.beta))

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The arguments that are tensors, which come first."""
        return self[:TENSORS]

    @property
    def scalars(self) -> tuple[Any, ...]:
        """The arguments that are numbers: ``scale``, ``above`` and ``left``."""
        return self[TENSORS:]

    @property
    def by_word(self) -> bool:
        """Whether weights differ from word to word, instead of only from head to head."""
        return (self.mix is not None and self.mix.dim() == 4) or (self.beta is not None and self.beta.dim() == 3)

    @property
    def kernel(self) -> int:
        """Size k of the convolution's kernel, 1 without one."""
        return 1 if self.weight is None else self.weight.size(-1)

    def checked(self, size: tuple[int, ...], dtype: torch.dtype, reads_previous: bool = True) -> "FusedArguments":
        """The arguments as kernels read them, for maps of a size (B, K, T, S) and a type.

        Args:
            reads_previous: whether previous logits are read, not only their weights.

        Raises:
            ValueError, TypeError: naming what has another size or type than it must have.
        """
        if reads_previous and (self.previous is None) != (self.mix is None):
            raise ValueError("previous logits and a weight of theirs go together")
        sentences, heads, queries, keys = size
        weights = (sentences, heads, queries) if self.by_word else (heads,)
        found = FusedArguments(
            readable("previous", self.previous, size, dtype),
            readable("mix", self.mix, (2, *weights), torch.float32),
            *self.checked_convolution(heads, weights),
            readable("padded_keys", self.padded_keys, (sentences, keys), torch.bool),
            readable("padded_queries", self.padded_queries, (sentences, queries), torch.bool),
            readable("future", self.future, (queries, keys), torch.bool),
            *self.scalars,
        )
        return found if found.weight is not None else found._replace(above=0, left=0)

    def checked_convolution(
        self, heads: int, weights: tuple[int, ...]
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Weight (K, K, k, k), bias (K) and beta of the size ``weights``, of float32, or three times None.

        Raises:
            ValueError, TypeError: see above; or if the first tap is not ``above`` rows and ``left`` columns from an
                entry.
        """
        weight, bias, beta, above, left = self.weight, self.bias, self.beta, self.above, self.left
        if weight is bias is beta is None:
            return None, None, None
        if weight is None or bias is None or beta is None:
            raise ValueError("a convolution has a weight, a bias and a beta")
        kernel = weight.size(-1)
        if not (0 <= above < kernel and 0 <= left < kernel):
            raise ValueError(
                f"a kernel of {kernel} cannot begin {above} rows above and {left} columns left of an entry"
            )
        return (
            readable("weight", weight, (heads, heads, kernel, kernel), torch.float32),
            readable("bias", bias, (heads,), torch.float32),
            readable("beta", beta, weights, torch.float32),
        )


def readable(name: str, tensor: MaybeTensor, size: tuple[int, ...], dtype: torch.dtype) -> MaybeTensor:
    """The tensor itself if a kernel can read it, or a contiguous copy; a mask of another type becomes bool.

    Raises:
        ValueError: naming the tensor, if it has another size; TypeError: if it has another type.
    """
    if tensor is None:
        return tensor
    if tensor.shape != size:
        raise ValueError(f"{name} must have the size {tuple(size)}, not {tuple(tensor.shape)}")
    if tensor.dtype is not dtype:
        if dtype is not torch.bool:
            raise TypeError(f"{name} must be of {dtype}, not {tensor.dtype}")
        tensor = tensor.bool()
    return tensor.contiguous()


def by_head(heads: int, device: torch.device, *weights: float | Tensor) -> Tensor:
    """Weights, each a number or a tensor, as kernels read them, in float32: a tensor for one, (n, ...) for n of them.

    Numbers become tensors (K).
    """
    if not any(isinstance(weight, Tensor) for weight in weights):
        is_captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if torch.compiler.is_compiling() or is_captured:
            return filled(heads, device, weights)
        return cached_filled(heads, device, weights)
    rows = [weight if isinstance(weight, Tensor) else filled(heads, device, (weight,)) for weight in weights]
    return rows[0].float() if len(rows) == 1 else torch.stack(rows).float()


def filled(heads: int, device: torch.device, values: tuple[Any, ...]) -> Tensor:
    """Values, each repeated for all heads: (K) for one, (n, K) for n of them."""
    rows = [torch.full((heads,), value, dtype=torch.float32, device=device) for value in values]
    return rows[0] if len(rows) == 1 else torch.stack(rows)


@lru_cache(maxsize=256)
@torch.inference_mode(False)
def cached_filled(heads: int, device: torch.device, values: tuple[Any, ...]) -> Tensor:
    """:func:`filled`, made once for all calls; not in inference mode, because some calls may be in training."""
    return filled(heads, device, values)


def save(ctx: Any, output: tuple[Tensor, ...], inputs: tuple[Tensor | None, ...], arguments: FusedArguments) -> None:
    """Saves what a backward operator reads: all outputs but the first, some inputs, and the arguments."""
    ctx.save_for_backward(*output[1:], *inputs, *arguments.tensors)
    ctx.scalars = arguments.scalars
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def refuse_second_derivatives(ctx: Any, *_: Tensor | None) -> None:
    """The gradients of a backward operator: an error, because torch would take them for zero."""
    raise RuntimeError("kernels have no second derivatives: EA_BACKEND=reference has")


def has_gradients(arguments: FusedArguments, is_learned: bool) -> dict[str, bool]:
    """Which of the arguments have gradients, by their names; weights of heads only where they are learned."""
    has_skip, has_conv = arguments.mix is not None, arguments.weight is not None
    found = has_skip, has_skip and is_learned, has_conv, has_conv, has_conv and is_learned
    return dict(zip(DIFFERENTIATED, found, strict=True))


def new_gradients(arguments: FusedArguments, is_learned: bool, maps: Tensor) -> list[Tensor | None]:
    """New tensors for the gradients of arguments, None where there is none; that of previous logits like ``maps``."""
    read: dict[str, Any] = {**arguments._asdict(), "previous": maps}
    return [
        torch.empty_like(read[name], memory_format=torch.contiguous_format) if there else None
        for name, there in has_gradients(arguments, is_learned).items()
    ]


def of_arguments(arguments: FusedArguments, is_learned: bool, *gradients: Tensor) -> tuple[Any, ...]:
    """Gradients of all of an operator's arguments, in their order; None for those without one."""
    there = has_gradients(arguments, is_learned)
    found = {name: x for (name, has), x in zip(there.items(), gradients, strict=True) if has}
    return tuple(found.get(name) for name in FusedArguments._fields)


def without_none(gradients: Iterable[Tensor | None], like: Tensor) -> list[Tensor]:
    """Gradients with an empty tensor for each None, which an operator cannot return."""
    return [like.new_empty(0) if gradient is None else gradient for gradient in gradients]
