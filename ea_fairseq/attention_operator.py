"""The operator ``ea_fairseq::attend``: a whole attention with evolving logits in native code, float32 on a CPU."""

import torch
from torch import Tensor, library

from ea_fairseq.attention_masks import AttentionMasks
from ea_fairseq.native_evolution import masks_for, no_bits, sizes
from ea_fairseq.native_library import call

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
    inputs = (query, memory, previous, weight, bias, masks.keys, masks.queries, masks.later)
    inputs = (tensor if tensor is None else tensor.contiguous() for tensor in inputs)
    return torch.ops.ea_fairseq.attend(*inputs, heads, scale, alpha, beta, above, left)[:2]


@library.impl("ea_fairseq::attend", "cpu")
def forward(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars):
    attended, logits, sums, active = outputs(query, memory, weight, heads)
    call(
        "attend",
        **fields(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars),
        attended=attended,
        logits=logits,
        sums=sums,
        active=active,
    )
    return attended, logits, sums, active


@library.impl("ea_fairseq::attend_backward", "cpu")
def backward(d_attended, d_logits, logits, sums, active, *inputs):
    d_query, d_memory, d_previous, d_weight, d_bias = gradients = [
        None if tensor is None else torch.empty_like(tensor) for tensor in inputs[:5]
    ]
    d_query, d_key, d_value = words_of(d_query, d_memory)
    call(
        "attend_backward",
        **fields(*inputs),
        d_query=d_query,
        d_key=d_key,
        d_value=d_value,
        d_previous=d_previous,
        d_weight=d_weight,
        d_bias=d_bias,
        d_attended=inputs[0].new_zeros(attended_shape(*inputs[:2])) if d_attended is None else d_attended,
        d_logits=d_logits,
        logits=logits,
        sums=sums,
        active=active,
    )
    return [logits.new_empty(0) if gradient is None else gradient for gradient in gradients]


def fields(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars) -> dict:
    scale, alpha, beta, above, left = scalars
    queries, keys, values = words_of(query, memory)
    return {
        **sizes(map_shape(query, memory, heads), weight, scale, 0.0 if previous is None else alpha, beta, above, left),
        **masks_for(padded_keys, padded_queries, later),
        "query": queries,
        "key": keys,
        "value": values,
        "previous": previous,
        "weight": weight,
        "bias": bias,
        "width": queries.size(-1) // heads,
        "query_step": queries.stride(1),
        "key_step": keys.stride(1),
    }


def words_of(query: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (T, B, C), keys and values (S, B, C) in the tensors that hold them side by side."""
    return query.chunk(3, -1) if memory is None else (query, *memory.chunk(2, -1))


def attended_shape(query: Tensor, memory: Tensor | None) -> tuple[int, int, int]:
    return *query.shape[:2], query.size(-1) // (3 if memory is None else 1)


def map_shape(query: Tensor, memory: Tensor | None, heads: int) -> tuple[int, int, int, int]:
    return query.size(1), heads, query.size(0), (query if memory is None else memory).size(0)


@library.register_fake("ea_fairseq::attend")
def attend_shapes(query, memory, previous, weight, bias, padded_keys, padded_queries, later, heads, *_):
    return outputs(query, memory, weight, heads)


def outputs(query, memory, weight, heads) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    attended = query.new_empty(attended_shape(query, memory))
    logits = query.new_empty(map_shape(query, memory, heads))
    return attended, logits, query.new_empty(logits.shape[:3]), no_bits(logits, weight)


@library.register_fake("ea_fairseq::attend_backward")
def attend_backward_shapes(d_attended, d_logits, logits, sums, active, *inputs):
    return [logits.new_empty(0) if tensor is None else torch.empty_like(tensor) for tensor in inputs[:5]]


def keep(ctx, inputs, output):
    ctx.save_for_backward(*output[1:], *inputs[:8])
    ctx.scalars = inputs[8:]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def gradients(ctx, d_attended, d_logits, *_):
    given = [None if gradient is None else gradient.contiguous() for gradient in (d_attended, d_logits)]
    found = torch.ops.ea_fairseq.attend_backward(*given, *ctx.saved_tensors, *ctx.scalars)
    inputs = ctx.saved_tensors[3:8]
    return *(None if x is None else gradient for x, gradient in zip(inputs, found, strict=True)), *[None] * 9


library.register_autograd("ea_fairseq::attend", gradients, setup_context=keep)
