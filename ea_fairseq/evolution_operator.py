"""The operator ``ea_fairseq::evolve``: scores to logits and probabilities in one pass, by a backend's own kernels."""

from functools import partial

import torch
from torch import Tensor, library

from ea_fairseq import backend, native_evolution, triton_evolution
from ea_fairseq.attention_masks import AttentionMasks

MASKS = "Tensor? padded_keys, Tensor? padded_queries, Tensor? later"
SCALARS = "float scale, float alpha, float beta, int above, int left"
library.define(
    "ea_fairseq::evolve",
    f"(Tensor scores, Tensor? previous, Tensor? weight, Tensor? bias, {MASKS}, {SCALARS})"
    " -> (Tensor logits, Tensor probabilities, Tensor mixed, Tensor active)",
)
library.define(
    "ea_fairseq::evolve_backward",
    "(Tensor? d_logits, Tensor? d_probabilities, Tensor probabilities, Tensor mixed, Tensor active, Tensor? weight,"
    f" Tensor? bias, {MASKS}, {SCALARS}, bool has_previous)"
    " -> (Tensor d_scores, Tensor d_previous, Tensor d_weight, Tensor d_bias)",
)


def evolve(
    scores: Tensor,
    previous: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    masks: AttentionMasks,
    scale: float,
    alpha: float,
    beta: float,
    above: int,
    left: int,
) -> tuple[Tensor, Tensor]:
    """Mixes, convolves and mixes logits (EA eq. 4), then takes their softmax (EA eq. 5).

    Args:
        scores: Q K^T, (B, K, T, S); previous: the previous layer's logits, the same size.
        weight: (K, K, k, k), bias: (K), of the convolution; None without one.
        scale: what scores are multiplied by; alpha, beta: weights of previous logits and of convolved ones.
        above, left: rows and columns from an entry to the one that the kernel's first tap reads.

    Returns:
        Logits and probabilities (B, K, T, S), both zero where the masks leave nothing.
    """
    if weight is not None:
        weight, bias = weight.float().contiguous(), bias.float()
    if previous is not None:
        previous = previous.to(scores.dtype).contiguous()
    hidden, scalars = (masks.keys, masks.queries, masks.later), (scale, alpha, beta, above, left)
    scores = scores.contiguous()
    return torch.ops.ea_fairseq.evolve(scores, previous, weight, bias, *hidden, *scalars)[:2]


def kernels(device: str):
    """The module that computes on a device."""
    return triton_evolution if device == "cuda" or backend.backend == "triton" else native_evolution


def backward(device: str, d_logits, d_probabilities, probabilities, *rest) -> list[Tensor]:
    if d_probabilities is None:
        d_probabilities = torch.zeros_like(probabilities)
    found = kernels(device).backward(d_logits, d_probabilities, probabilities, *rest)
    return [probabilities.new_empty(0) if gradient is None else gradient for gradient in found]


for device in ("cpu", "cuda"):
    library.impl("ea_fairseq::evolve", device, lambda *inputs, device=device: kernels(device).forward(*inputs))
    library.impl("ea_fairseq::evolve_backward", device, partial(backward, device))


@library.register_fake("ea_fairseq::evolve")
def evolve_shapes(scores, previous, weight, *_):
    logits, probabilities = torch.empty_like(scores), torch.empty_like(scores)
    mixed = scores.new_empty(0) if weight is None else torch.empty_like(scores)
    in_bits = weight is not None and kernels(scores.device.type) is native_evolution
    shape = native_evolution.active_shape(scores) if in_bits else (0,)
    return logits, probabilities, mixed, scores.new_empty(shape, dtype=torch.uint8)


@library.register_fake("ea_fairseq::evolve_backward")
def evolve_backward_shapes(d_logits, d_probabilities, probabilities, mixed, active, weight, bias, *rest):
    empty = probabilities.new_empty(0)
    return (
        torch.empty_like(probabilities),
        torch.empty_like(probabilities) if rest[-1] else empty,
        empty if weight is None else torch.empty_like(weight),
        empty if weight is None else torch.empty_like(bias),
    )


def keep(ctx, inputs, output):
    _, previous, *parameters_and_masks = inputs[:7]
    _, *kept = output
    ctx.save_for_backward(*kept, *parameters_and_masks)
    ctx.rest = *inputs[7:], previous is not None
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def gradients(ctx, d_logits, d_probabilities, *_):
    given = [None if gradient is None else gradient.contiguous() for gradient in (d_logits, d_probabilities)]
    found = torch.ops.ea_fairseq.evolve_backward(*given, *ctx.saved_tensors, *ctx.rest)
    has_weight = ctx.saved_tensors[3] is not None
    there = True, ctx.rest[-1], has_weight, has_weight
    return *(gradient if is_there else None for gradient, is_there in zip(found, there, strict=True)), *[None] * 8


library.register_autograd("ea_fairseq::evolve", gradients, setup_context=keep)
