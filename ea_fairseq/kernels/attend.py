"""Whole attentions: projections of queries, keys and values side by side, and the operator ``ea_fairseq::attend``."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, library, nn

from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.dispatch import (
    D_SCHEMA,
    DIFFERENTIATED,
    FusedArguments,
    arguments_of,
    is_native,
    new_gradients,
    new_relu_mask,
    of_arguments,
    read_arguments,
    readable,
    refuse_second_derivatives,
    save,
    without_none,
)
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


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def project(x: Tensor, *layers: nn.Module) -> Tensor:
    """The outputs of linear layers, side by side, in one product.

    Args:
        x: (..., C).
        layers: n of them, of C' outputs each, all with a bias or all without.

    Returns:
        (..., n C').
    """
    # torch.jit.trace cannot see into an autograd.Function, and autocast does not reach its backward pass.
    simple = torch.jit.is_tracing() or torch.is_autocast_enabled(x.device.type)
    if simple or not torch.is_grad_enabled() or not all(map(is_exactly, layers)):
        return joined(*layers)(x)
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return Projection.apply(x, len(layers), *(layer.weight for layer in layers), *biases)


def joined(*layers: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function of x (..., C) that returns what ``project`` does, with the parameters as they are now."""
    if not all(map(is_exactly, layers)):
        return lambda x: torch.cat([layer(x) for layer in layers], dim=-1)
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return partial(F.linear, weight=weight, bias=bias)


def is_exactly(layer: nn.Module, kind: type[nn.Module] = nn.Linear) -> bool:
    """Whether the layer is of a kind and nothing else: fairseq's quantization noise, for one, is a hook."""
    return type(layer) is kind and not any(getattr(layer, hooks) for hooks in HOOKS)


class Projection(torch.autograd.Function):
    """``project`` without a joined copy of the weights among what is saved for the backward pass.

    Its arguments are x (..., C), the number n of layers, their weights (C', C) and, if there are any, biases (C').
    """

    @staticmethod
    def forward(x, layers, *parameters):
        weights, biases = parameters[:layers], parameters[layers:]
        return F.linear(x, torch.cat(weights), torch.cat(biases) if biases else None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, layers, *parameters = inputs
        ctx.has_bias = len(parameters) > layers
        ctx.save_for_backward(x, *parameters[:layers])

    @staticmethod
    def backward(ctx, d_output):
        x, *weights = ctx.saved_tensors
        sizes = [len(weight) for weight in weights]
        d_x = d_output @ torch.cat(weights) if ctx.needs_input_grad[0] else None
        rows = d_output.flatten(0, -2)
        d_weights = (rows.T @ x.flatten(0, -2)).split(sizes)
        d_biases = rows.sum(0).split(sizes) if ctx.has_bias else ()
        return d_x, None, *d_weights, *d_biases


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
    return query.chunk(3, dim=-1) if memory is None else (query, *memory.chunk(2, dim=-1))


def map_size(query: Tensor, memory: Tensor | None, heads: int) -> tuple[int, int, int, int]:
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
    """Scores (EA eq. 1), logits (EA eq. 4) and attention (EA eq. 5) in one pass, of which only the logits are written.

    Args:
        query: (T, B, C), projected; memory: (S, B, 2 C), keys and values side by side. Without memory, ``query`` is
            (T, B, 3 C), queries, keys and values of the same tokens.
        scale: what scores are multiplied by.
        previous: (B, K, T, S), logits of the layer below; it and the masks may have one row or column for all.

    Returns:
        What is attended to, (T, B, C), and logits (B, K, T, S), zero where masked; None where no kernel takes this.

    Raises:
        ValueError, TypeError: naming what has another size or type than it must have.
    """
    size = map_size(query, memory, heads)
    is_one_batch = memory is None or query.size(1) == memory.size(1)
    if masks.float_mask is not None or not is_one_batch or 0 in size or not is_native(query):
        return None
    arguments = arguments_of(fused, scale, previous, masks, size, query.device)
    return torch.ops.ea_fairseq.attend(query, memory, heads, *arguments)[:2]


def read_attention(
    query: Tensor, memory: Tensor | None, heads: int, arguments: FusedArguments
) -> tuple[Tensor, Tensor | None, FusedArguments]:
    """Query, memory and arguments as native code reads them.

    Raises:
        ValueError, TypeError: naming what has another size or type than it must have.
    """
    parts = 3 if memory is None else 1
    if query.dim() != 3 or heads < 1 or query.size(-1) == 0 or query.size(-1) % (parts * heads):
        raise ValueError(f"query must have the size (T, B, {parts} * C), not {tuple(query.shape)}, for {heads} heads")
    query = readable("query", query, query.shape, torch.float32)
    if memory is not None:
        size = *memory.shape[:1], query.size(1), 2 * query.size(2)
        memory = readable("memory", memory, size, torch.float32)
    return query, memory, read_arguments(arguments, map_size(query, memory, heads), query.dtype)


@library.impl("ea_fairseq::attend", "cpu")
def forward(query, memory, heads, *arguments):
    """Of any tensors; see :func:`attend`."""
    query, memory, arguments = read_attention(query, memory, heads, FusedArguments(*arguments))
    attended, logits, logsumexp, relu_mask = found = outputs(query, memory, heads, *arguments)
    if logits.numel() == 0:
        return [tensor.zero_() for tensor in found]
    written = {"attended": attended, "logits": logits, "logsumexp": logsumexp, "relu_mask": relu_mask}
    dispatch.call("attend", logits.shape, arguments, **fields(query, memory, heads), **written)
    return found


@library.impl("ea_fairseq::attend_backward", "cpu")
def backward(d_attended, d_logits, logits, logsumexp, relu_mask, is_learned, query, memory, heads, *arguments):
    """Of any tensors: gradients of query, memory and the arguments that may have some, empty where there is none.

    Args:
        is_learned: whether the weights of heads take gradients.
    """
    query, memory, arguments = read_attention(query, memory, heads, FusedArguments(*arguments))
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
    dispatch.call("attend_backward", logits.shape, arguments, **fields(query, memory, heads), **given, **written)
    return without_none(found, query)


def gradients_like(
    query: Tensor, memory: Tensor | None, logits: Tensor, is_learned: bool, arguments: FusedArguments
) -> list[Tensor | None]:
    """New tensors for the gradients of query, memory and the arguments that may have some, None where there is none."""
    of_tokens = [None if tensor is None else tensor.new_empty(tensor.shape) for tensor in (query, memory)]
    return [*of_tokens, *new_gradients(arguments, is_learned, logits)]


@library.register_fake("ea_fairseq::attend")
def outputs(query, memory, heads, *arguments):
    """New tensors for what is attended to (T, B, C), logits (B, K, T, S), the logsumexp of their visible keys (B, K, T)
    and, in bits, where the convolution's ReLU passes its output on."""
    attended = query.new_empty(split_qkv(query, memory)[0].shape)
    logits = query.new_empty(map_size(query, memory, heads))
    relu_mask = new_relu_mask(logits, FusedArguments(*arguments).weight)
    return attended, logits, query.new_empty(logits.shape[:3]), relu_mask


def fields(query: Tensor, memory: Tensor | None, heads: int) -> dict[str, Tensor | int]:
    """Fields of a call that tell of queries, keys and values."""
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
def backward_outputs(d_attended, d_logits, logits, logsumexp, relu_mask, is_learned, query, memory, heads, *arguments):
    """New tensors of the sizes that ``backward`` returns."""
    return without_none(gradients_like(query, memory, logits, is_learned, FusedArguments(*arguments)), query)


def setup_context(ctx, inputs, output):
    query, memory, ctx.heads, *arguments = inputs
    arguments = FusedArguments(*arguments)
    ctx.is_learned = arguments.is_learned
    save(ctx, output, (query, memory), arguments)


def differentiate(ctx, d_attended, d_logits, *_):
    """Gradients of the inputs of ``attend`` from those of its outputs."""
    *saved, query, memory = ctx.saved_tensors[:5]
    arguments = FusedArguments(*ctx.saved_tensors[5:], *ctx.numbers)
    d_query, d_memory, *others = torch.ops.ea_fairseq.attend_backward(
        d_attended, d_logits, *saved, ctx.is_learned, query, memory, ctx.heads, *arguments
    )
    d_arguments = of_arguments(arguments, ctx.is_learned, *others)
    return d_query, None if memory is None else d_memory, None, *d_arguments


library.register_autograd("ea_fairseq::attend", differentiate, setup_context=setup_context)
library.register_autograd("ea_fairseq::attend_backward", refuse_second_derivatives)
