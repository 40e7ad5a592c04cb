"""The operator ``ea_fairseq::attend``: a whole attention with evolving logits in native code, float32 on a CPU."""

import torch
from torch import Tensor, library

from ea_fairseq.attention.masks import AttentionMasks
from ea_fairseq.kernels.cpu.evolution import active_size, no_bits, sizes
from ea_fairseq.kernels.cpu.library import call
from ea_fairseq.kernels.tensors import evolving, readable

INPUTS = (
    "Tensor query, Tensor? memory, Tensor? previous, Tensor? weight, Tensor? bias,"
    " Tensor? padded_keys, Tensor? padded_queries, Tensor? later"
)
SCALARS = "int heads, float scale, float alpha, float beta, int above, int left"
library.define(
    "ea_fairseq::attend",
    f"({INPUTS}, {SCALARS}) -> (Tensor attended, Tensor logits, Tensor sums, Tensor active)",
)
library.define(
    "ea_fairseq::attend_backward",
    f"(Tensor? d_attended, Tensor? d_logits, Tensor logits, Tensor sums, Tensor active, {INPUTS}, {SCALARS})"
    " -> (Tensor d_query, Tensor d_memory, Tensor d_previous, Tensor d_weight, Tensor d_bias)",
)


def attend(
    query: Tensor,
    memory: Tensor | None,
    previous: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    masks: AttentionMasks,
    heads: int,
    scale: float,
    alpha: float,
    beta: float,
    above: int,
    left: int,
) -> tuple[Tensor, Tensor]:
    """Scores (EA eq. 1), evolves (eq. 4) and attends (eq. 5). Of the maps, only the logits pass through memory.

    Args:
        query: (T, B, C), projected; memory: (S, B, 2 C), keys and values side by side. Without memory, ``query`` is
            (T, B, 3 C), queries, keys and values of the same words. The other arguments are those of ``evolve``.

    Returns:
        What is attended to, (T, B, C), and logits (B, K, T, S), zero where the masks leave nothing.
    """
    inputs = query, memory, previous, weight, bias, masks.keys, masks.queries, masks.later
    return torch.ops.ea_fairseq.attend(*inputs, heads, scale, alpha, beta, above, left)[:2]


@library.impl("ea_fairseq::attend", "cpu")
def forward(*inputs):
    inputs = read(*inputs)
    attended, logits, sums, active = found = outputs(*inputs)
    if logits.numel() == 0:
        return [tensor.zero_() for tensor in found]
    call("attend", **fields(*inputs), attended=attended, logits=logits, sums=sums, active=active)
    return found


@library.impl("ea_fairseq::attend_backward", "cpu")
def backward(d_attended, d_logits, logits, sums, active, *inputs):
    inputs = read(*inputs)
    (query, memory, _, weight), heads = inputs[:4], inputs[8]
    size, attended_size = map_shape(query, memory, heads), attended_shape(query, memory)
    if d_attended is None:
        d_attended = query.new_zeros(attended_size)
    given = {
        "d_attended": readable("d_attended", d_attended, attended_size, torch.float32),
        "d_logits": readable("d_logits", d_logits, size, torch.float32),
        "logits": readable("logits", logits, size, torch.float32),
        "sums": readable("sums", sums, size[:3], torch.float32),
        "active": readable("active", active, (0,) if weight is None else active_size(size), torch.uint8),
    }
    found = attend_backward_shapes(*given.values(), *inputs)
    if logits.numel() == 0:
        return [gradient.zero_() for gradient in found]
    d_query, d_memory, *others = (None if x is None else d_x for x, d_x in zip(inputs[:5], found, strict=True))
    names = "d_query", "d_key", "d_value", "d_previous", "d_weight", "d_bias"
    gradients = dict(zip(names, (*words_of(d_query, d_memory), *others), strict=True))
    call("attend_backward", **fields(*inputs), **given, **gradients)
    return found


def read(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars) -> tuple:
    """The inputs as native code reads them.

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
    *_, above, left = scalars
    size = map_shape(query, memory, heads)
    rest = evolving(size, query.dtype, previous, weight, bias, padded_keys, padded_queries, later, above, left)
    return query, memory, *rest, heads, *scalars


def fields(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars) -> dict:
    scale, alpha, beta, above, left = scalars
    queries, keys, values = words_of(query, memory)
    return {
        **sizes(map_shape(query, memory, heads), weight, scale, 0.0 if previous is None else alpha, beta, above, left),
        "padded_keys": padded_keys,
        "padded_queries": padded_queries,
        "later": later,
        "query": queries,
        "key": keys,
        "value": values,
        "previous": previous,
        "weight": weight,
        "bias": bias,
        "width": queries.size(-1) // heads,
        "query_step": query.size(-1),
        "key_step": (query if memory is None else memory).size(-1),
    }


def words_of(query: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (T, B, C), keys and values (S, B, C) in the tensors that hold them side by side."""
    return query.chunk(3, -1) if memory is None else (query, *memory.chunk(2, -1))


def attended_shape(query: Tensor, memory: Tensor | None) -> tuple[int, int, int]:
    return *query.shape[:2], query.size(-1) // (3 if memory is None else 1)


def map_shape(query: Tensor, memory: Tensor | None, heads: int) -> tuple[int, int, int, int]:
    return query.size(1), heads, query.size(0), (query if memory is None else memory).size(0)


@library.register_fake("ea_fairseq::attend")
def outputs(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *_):
    attended = query.new_empty(attended_shape(query, memory))
    logits = query.new_empty(map_shape(query, memory, heads))
    return attended, logits, query.new_empty(logits.shape[:3]), no_bits(logits, weight)


@library.register_fake("ea_fairseq::attend_backward")
def attend_backward_shapes(d_attended, d_logits, logits, sums, active, *inputs):
    return [logits.new_empty(0 if tensor is None else tensor.shape) for tensor in inputs[:5]]


def keep(ctx, inputs, output):
    ctx.save_for_backward(*output[1:], *inputs[:8])
    ctx.scalars = inputs[8:]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def gradients(ctx, d_attended, d_logits, *_):
    found = torch.ops.ea_fairseq.attend_backward(d_attended, d_logits, *ctx.saved_tensors, *ctx.scalars)
    inputs = ctx.saved_tensors[3:8]
    return *(None if x is None else gradient for x, gradient in zip(inputs, found, strict=True)), *[None] * 9


library.register_autograd("ea_fairseq::attend", gradients, setup_context=keep)
