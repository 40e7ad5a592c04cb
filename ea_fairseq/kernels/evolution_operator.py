"""The operator ``ea_fairseq::evolve``: scores to logits and probabilities in one pass, by a backend's own kernels."""

from functools import partial

import torch
from torch import Tensor, library

from ea_fairseq.attention.masks import AttentionMasks
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.tensors import evolving, readable
from ea_fairseq.kernels.triton import evolution as triton_evolution

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
        weight, bias = weight.float(), bias.float()
    hidden, scalars = (masks.keys, masks.queries, masks.later), (scale, alpha, beta, above, left)
    return torch.ops.ea_fairseq.evolve(scores, previous, weight, bias, *hidden, *scalars)[:2]


def kernels(device: str):
    """The module that computes on a device."""
    return triton_evolution if device == "cuda" or backend.backend == "triton" else native_evolution


def maps(device: str, name: str, tensor: Tensor) -> Tensor:
    """The tensor as a device's kernels read maps."""
    dtypes = kernels(device).DTYPES
    if tensor.dim() != 4 or tensor.dtype not in dtypes:
        raise ValueError(f"{name} must be maps (B, K, T, S) of {dtypes}, not {tuple(tensor.shape)} of {tensor.dtype}")
    return readable(name, tensor, tensor.shape, tensor.dtype)


def forward(device: str, scores, previous, weight, bias, *rest) -> list[Tensor]:
    """
    Raises:
        ValueError, TypeError: naming the tensor, where it has another size or type than it must have.
    """
    *masks, scale, alpha, beta, above, left = rest
    scores = maps(device, "scores", scores)
    inputs = evolving(scores.shape, scores.dtype, previous, weight, bias, *masks, above, left)
    if scores.numel() == 0:
        return evolve_shapes(scores, previous, weight)
    return kernels(device).forward(scores, *inputs, scale, alpha, beta, above, left)


def backward(device: str, d_logits, d_probabilities, probabilities, mixed, active, weight, bias, *rest) -> list[Tensor]:
    """Raises what ``forward`` raises."""
    *masks, scale, alpha, beta, above, left, has_previous = rest
    probabilities = maps(device, "probabilities", probabilities)
    size, dtype, scalars = probabilities.shape, probabilities.dtype, (scale, alpha, beta, above, left)
    _, *parameters_and_masks = evolving(size, dtype, None, weight, bias, *masks, above, left)
    if d_probabilities is None:
        d_probabilities = torch.zeros_like(probabilities)
    given = (
        readable("d_logits", d_logits, size, dtype),
        readable("d_probabilities", d_probabilities, size, dtype),
        probabilities,
        readable("mixed", mixed, (0,) if weight is None else size, dtype),
        readable("active", active, active_size(device, size, weight), torch.uint8),
    )
    if probabilities.numel() == 0:
        return [gradient.zero_() for gradient in evolve_backward_shapes(*given, weight, bias, has_previous)]
    found = kernels(device).backward(*given, *parameters_and_masks, *scalars, has_previous)
    return [probabilities.new_empty(0) if gradient is None else gradient for gradient in found]


for device in ("cpu", "cuda"):
    library.impl("ea_fairseq::evolve", device, partial(forward, device))
    library.impl("ea_fairseq::evolve_backward", device, partial(backward, device))


@library.register_fake("ea_fairseq::evolve")
def evolve_shapes(scores, previous, weight, *_):
    logits, probabilities = scores.new_empty(scores.shape), scores.new_empty(scores.shape)
    mixed = scores.new_empty(0 if weight is None else scores.shape)
    size = active_size(scores.device.type, scores.shape, weight)
    return logits, probabilities, mixed, scores.new_empty(size, dtype=torch.uint8)


def active_size(device: str, size: tuple[int, ...], weight: Tensor | None) -> tuple[int, ...]:
    """Of what the convolution's ReLU has let through; only the native code keeps it."""
    in_bits = weight is not None and kernels(device) is native_evolution
    return native_evolution.active_size(size) if in_bits else (0,)


@library.register_fake("ea_fairseq::evolve_backward")
def evolve_backward_shapes(d_logits, d_probabilities, probabilities, mixed, active, weight, bias, *rest):
    size, has_previous = probabilities.shape, rest[-1]
    return (
        probabilities.new_empty(size),
        probabilities.new_empty(size if has_previous else 0),
        probabilities.new_empty(0) if weight is None else weight.new_empty(weight.shape),
        probabilities.new_empty(0) if weight is None else bias.new_empty(bias.shape),
    )


def keep(ctx, inputs, output):
    _, previous, *parameters_and_masks = inputs[:7]
    _, *kept = output
    ctx.save_for_backward(*kept, *parameters_and_masks)
    ctx.rest = *inputs[7:], previous is not None
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])


def gradients(ctx, d_logits, d_probabilities, *_):
    found = torch.ops.ea_fairseq.evolve_backward(d_logits, d_probabilities, *ctx.saved_tensors, *ctx.rest)
    has_weight = ctx.saved_tensors[3] is not None
    there = True, ctx.rest[-1], has_weight, has_weight
    return *(gradient if is_there else None for gradient, is_there in zip(found, there, strict=True)), *[None] * 8


library.register_autograd("ea_fairseq::evolve", gradients, setup_context=keep)
