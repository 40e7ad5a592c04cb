"""Whole attentions: the operator ``ea_fairseq::attend``, of projected queries, keys and values."""

from typing import Any

import torch
from torch import Tensor, library

from ea_fairseq.kernels.arguments import (
    D_SCHEMA,
    DIFFERENTIATED,
    FusedArguments,
    MapSize,
    new_gradients,
    of_arguments,
    readable,
    refuse_second_derivatives,
    save,
    without_none,
)
from ea_fairseq.kernels.cpu.call import call, new_relu_mask
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks

ARGUMENTS = FusedArguments.schema()
library.define(
    "ea_fairseq::attend",
    f"(Tensor query, Tensor? memory, int heads, {ARGUMENTS})"
    " -> (Tensor attended, Tensor logits, Tensor logsumexp, Tensor relu_mask)",
)
library.define(
    "ea_fairseq::attend_backward",
    "(Tensor? d_attended, Tensor? d_logits, Tensor logits, Tensor logsumexp, Tensor relu_mask,"
    f" bool is_learned, Tensor query, Tensor? memory, int heads, {ARGUMENTS})"
    f" -> (Tensor d_query, Tensor d_memory, {D_SCHEMA})",
)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(T, B, C) -> (B, K, T, d)"""
    return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)


def join_heads(x: Tensor) -> Tensor:
    """(B, K, T, d) -> (T, B, C)"""
    return x.permute(2, 0, 1, 3).flatten(2)


def split_qkv(query: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (T, B, C), keys and values (S, B, C), views of the tensors that hold them side by side.

    Args:
        query: (T, B, C), with ``memory`` (S, B, 2 C), keys and values; or (T, B, 3 C), and no memory.
    """
    first, second, *third = query.chunk(3, dim=-1) if memory is None else memory.chunk(2, dim=-1)
    return (first, second, third[0]) if third else (query, first, second)


def map_size(query: Tensor, memory: Tensor | None, heads: int) -> MapSize:
    """Size (B, K, T, S) of the maps of such an attention."""
    return query.size(1), heads, query.size(0), (query if memory is None else memory).size(0)


def attend(
    query: Tensor,
    memory: Tensor | None,
    heads: int,
    scale: float,
    fused: FusedLogits,
    previous: Tensor | None,
    masks: AttentionMasks,
) -> tuple[Tensor, Tensor] | None:
    """Scores (EA eq. 1), logits (EA eq. 4) and attention (EA eq. 5) in one pass that stores no map but the logits.

    Args:
        query: (T, B, C), projected; memory: (S, B, 2 C), keys and values side by side. Without memory, ``query`` is
            (T, B, 3 C), queries, keys and values of the same tokens.
        scale: what scores are multiplied by.
        previous: (B, K, T, S), logits of the layer below; it and the masks may have one row or column for all.

    Returns:
        What is attended to, (T, B, C), and logits (B, K, T, S), zero where masked; None if no kernel supports this.

    Raises:
        ValueError, TypeError: naming a tensor of a wrong size or type.
    """
    size = map_size(query, memory, heads)
    is_one_batch = memory is None or query.size(1) == memory.size(1)
    if masks.float_mask is not None or not is_one_batch or 0 in size or not is_native(query):
        return None
    arguments = FusedArguments.of(fused, scale, size, query.device, previous, masks)
    return torch.ops.ea_fairseq.attend(query, memory, heads, *arguments)[:2]


def read_attention(
    query: Tensor, memory: Tensor | None, heads: int, arguments: FusedArguments
) -> tuple[Tensor, Tensor | None, FusedArguments]:
    """Query, memory and arguments as native code reads them.

    Raises:
        ValueError, TypeError: naming a tensor of a wrong size or type.
    """
    parts = 3 if memory is None else 1
    if query.dim() != 3 or heads < 1 or query.size(-1) == 0 or query.size(-1) % (parts * heads):
        raise ValueError(f"query must have the size (T, B, {parts} * C), not {tuple(query.shape)}, for {heads} heads")
    query = readable("query", query, query.shape, torch.float32)
    if memory is not None:
        size = *memory.shape[:1], query.size(1), 2 * query.size(2)
        memory = readable("memory", memory, size, torch.float32)
    return query, memory, arguments.checked(map_size(query, memory, heads), query.dtype)


@library.impl("ea_fairseq::attend", "cpu")
def forward(query: Tensor, memory: Tensor | None, heads: int, *values: Any) -> list[Tensor]:
    """The operator ``attend``, for tensors that are checked first; see :func:`attend`."""
    query, memory, arguments = read_attention(query, memory, heads, FusedArguments(*values))
    attended, logits, logsumexp, relu_mask = found = outputs(query, memory, heads, *arguments)
    if logits.numel() == 0:
        return [tensor.zero_() for tensor in found]
    written = {"attended": attended, "logits": logits, "logsumexp": logsumexp, "relu_mask": relu_mask}
    call("attend", logits.shape, arguments, **fields(query, memory, heads), **written)
    return found


@library.impl("ea_fairseq::attend_backward", "cpu")
def backward(
    d_attended: Tensor | None,
    d_logits: Tensor | None,
    logits: Tensor,
    logsumexp: Tensor,
    relu_mask: Tensor,
    is_learned: bool,
    query: Tensor,
    memory: Tensor | None,
    heads: int,
    *values: Any,
) -> list[Tensor]:
    """The operator ``attend_backward``: gradients of query, memory and the arguments that have some, else empty.

    Args:
        is_learned: whether the weights of heads need gradients.
    """
    query, memory, arguments = read_attention(query, memory, heads, FusedArguments(*values))
    attended, *like = outputs(query, memory, heads, *arguments)
    if d_attended is None:
        d_attended = attended.zero_()
    given = {
        "d_attended": readable("d_attended", d_attended, attended.shape, torch.float32),
        "d_logits": readable("d_logits", d_logits, like[0].shape, torch.float32),
        "logits": readable("logits", logits, like[0].shape, torch.float32),
        "logsumexp": readable("logsumexp", logsumexp, like[1].shape, torch.float32),
        "relu_mask": readable("relu_mask", relu_mask, like[2].shape, torch.uint8),
    }
    found = d_query, d_memory, *d_arguments = gradients_like(query, memory, logits, is_learned, arguments)
    if logits.numel() == 0:
        return without_none((None if gradient is None else gradient.zero_() for gradient in found), query)
    d_tokens = zip(("d_query", "d_key", "d_value"), split_qkv(d_query, d_memory), strict=True)
    d_others = zip((f"d_{name}" for name in DIFFERENTIATED), d_arguments, strict=True)
    written = {**dict(d_tokens), **dict(d_others)}
    call("attend_backward", logits.shape, arguments, **fields(query, memory, heads), **given, **written)
    return without_none(found, query)


def gradients_like(
    query: Tensor, memory: Tensor | None, logits: Tensor, is_learned: bool, arguments: FusedArguments
) -> tuple[Tensor, Tensor | None, *tuple[Tensor | None, ...]]:
    """New tensors for the gradients of query, memory and the arguments that have some, None for the others."""
    d_memory = None if memory is None else memory.new_empty(memory.shape)
    return query.new_empty(query.shape), d_memory, *new_gradients(arguments, is_learned, logits)


@library.register_fake("ea_fairseq::attend")
def outputs(query: Tensor, memory: Tensor | None, heads: int, *values: Any) -> list[Tensor]:
    """New tensors for what is attended to (T, B, C), logits (B, K, T, S), the logsumexp over visible keys (B, K, T) and
    the bits of the convolution's ReLU, set where its input is positive."""
    attended = query.new_empty(split_qkv(query, memory)[0].shape)
    logits = query.new_empty(map_size(query, memory, heads))
    relu_mask = new_relu_mask(logits, FusedArguments(*values).weight)
    return [attended, logits, query.new_empty(logits.shape[:3]), relu_mask]


def fields(query: Tensor, memory: Tensor | None, heads: int) -> dict[str, Tensor | int]:
    """The fields of a call that describe queries, keys and values."""
    queries, keys, values = split_qkv(query, memory)
    return {
        "query": queries,
        "key": keys,
        "value": values,
        "head_dim": queries.size(-1) // heads,
        "query_stride": query.size(-1),
        "key_stride": (query if memory is None else memory).size(-1),
    }


@library.register_fake("ea_fairseq::attend_backward")
def backward_outputs(
    d_attended: Tensor | None,
    d_logits: Tensor | None,
    logits: Tensor,
    logsumexp: Tensor,
    relu_mask: Tensor,
    is_learned: bool,
    query: Tensor,
    memory: Tensor | None,
    heads: int,
    *values: Any,
) -> list[Tensor]:
    """New tensors of the sizes that :func:`backward` returns."""
    return without_none(gradients_like(query, memory, logits, is_learned, FusedArguments(*values)), query)


def setup_context(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    """Saves what :func:`differentiate` reads."""
    query, memory, ctx.heads, *values = inputs
    arguments = FusedArguments(*values)
    ctx.is_learned = arguments.is_learned
    save(ctx, output, (query, memory), arguments)


def differentiate(ctx: Any, d_attended: Tensor | None, d_logits: Tensor | None, *_: Any) -> tuple[Any, ...]:
    """Gradients of the inputs of ``attend`` from those of its outputs."""
    *saved, query, memory = ctx.saved_tensors[:5]
    arguments = FusedArguments(*ctx.saved_tensors[5:], *ctx.scalars)
    d_query, d_memory, *others = torch.ops.ea_fairseq.attend_backward(
        d_attended, d_logits, *saved, ctx.is_learned, query, memory, ctx.heads, *arguments
    )
    d_arguments = of_arguments(arguments, ctx.is_learned, *others)
    return d_query, None if memory is None else d_memory, None, *d_arguments


library.register_autograd("ea_fairseq::attend", differentiate, setup_context=setup_context)
library.register_autograd("ea_fairseq::attend_backward", refuse_second_derivatives)
