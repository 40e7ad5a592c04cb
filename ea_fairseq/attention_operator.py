"""The operator ``ea_fairseq::attend``: a whole attention with evolving logits in native code, float32 on a CPU."""

import torch
from torch import Tensor, library

from ea_fairseq.attention_masks import AttentionMasks
from ea_fairseq.native_evolution import masks_for, no_bits, sizes
from ea_fairseq.native_library import call

INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? previous, Tensor? weight, Tensor? bias,"
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
    " -> (Tensor d_query, Tensor d_key, Tensor d_value, Tensor d_previous, Tensor d_weight, Tensor d_bias)",
)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
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
        query: (T, B, C); key, value: (S, B, C), all projected; the other arguments are those of ``evolve``.

    Returns:
        What is attended to, (T, B, C), and logits (B, K, T, S), zero where the masks leave nothing.
    """
    inputs = (query, key, value, previous, weight, bias, masks.keys, masks.queries, masks.later)
    inputs = (tensor if tensor is None else tensor.contiguous() for tensor in inputs)
    return torch.ops.ea_fairseq.attend(*inputs, heads, scale, alpha, beta, above, left)[:2]


@library.impl("ea_fairseq::attend", "cpu")
def forward(query, key, value, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars):
    attended, logits = torch.empty_like(query), query.new_empty(map_shape(query, key, heads))
    sums, active = query.new_empty(logits.shape[:3]), no_bits(logits, weight)
    call(
        "attend",
        **fields(query, key, value, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars),
        attended=attended,
        logits=logits,
        sums=sums,
        active=active,
    )
    return attended, logits, sums, active


@library.impl("ea_fairseq::attend_backward", "cpu")
def backward(d_attended, d_logits, logits, sums, active, *inputs):
    names = ("query", "key", "value", "previous", "weight", "bias")
    gradients = [None if tensor is None else torch.empty_like(tensor) for tensor in inputs[:6]]
    call(
        "attend_backward",
        **fields(*inputs),
        **{f"d_{name}": gradient for name, gradient in zip(names, gradients, strict=True)},
        d_attended=torch.zeros_like(inputs[0]) if d_attended is None else d_attended,
        d_logits=d_logits,
        logits=logits,
        sums=sums,
        active=active,
    )
    return [logits.new_empty(0) if gradient is None else gradient for gradient in gradients]


def fields(query, key, value, previous, weight, bias, padded_keys, padded_queries, later, heads, *scalars) -> dict:
    scale, alpha, beta, above, left = scalars
    return {
        **sizes(map_shape(query, key, heads), weight, scale, 0.0 if previous is None else alpha, beta, above, left),
        **masks_for(padded_keys, padded_queries, later),
        "query": query,
        "key": key,
        "value": value,
        "previous": previous,
        "weight": weight,
        "bias": bias,
        "width": query.size(-1) // heads,
    }


def map_shape(query: Tensor, key: Tensor, heads: int) -> tuple[int, int, int, int]:
    return query.size(1), heads, query.size(0), key.size(0)


@library.register_fake("ea_fairseq::attend")
def attend_shapes(query, key, value, previous, weight, bias, padded_keys, padded_queries, later, heads, *_):
    logits = query.new_empty(map_shape(query, key, heads))
    return torch.empty_like(query), logits, query.new_empty(logits.shape[:3]), no_bits(logits, weight)


@library.register_fake("ea_fairseq::attend_backward")
def attend_backward_shapes(d_attended, d_logits, logits, sums, active, *inputs):
    return [logits.new_empty(0) if tensor is None else torch.empty_like(tensor) for tensor in inputs[:6]]


def keep(ctx, inputs, output):
    ctx.save_for_backward(*output[1:], *inputs[:9])
    ctx.scalars = inputs[9:]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def gradients(ctx, d_attended, d_logits, *_):
    given = [None if gradient is None else gradient.contiguous() for gradient in (d_attended, d_logits)]
    found = torch.ops.ea_fairseq.attend_backward(*given, *ctx.saved_tensors, *ctx.scalars)
    inputs = ctx.saved_tensors[3:9]
    return *(None if x is None else gradient for x, gradient in zip(inputs, found, strict=True)), *[None] * 9


library.register_autograd("ea_fairseq::attend", gradients, setup_context=keep)
