"""Label-smoothed cross entropy of features and targets, in chunks of rows: no logits of a whole batch are kept.

``torch.nn.functional.linear_cross_entropy`` (torch 2.13) is no replacement: it works in chunks only without label
smoothing, sums the losses of bfloat16 inputs in bfloat16, and returns no negative log-likelihood with the loss.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

CHUNK = 256  # rows of logits at a time: with 10,000 classes in float32, 10 MB, which stay in a cache
CHUNK_ON_GPU = 4096  # there, fewer and larger kernels matter more


def chunk_rows(device: torch.device) -> int:
    """Returns the number of rows of logits to compute at a time on this device."""
    return CHUNK if device.type == "cpu" else CHUNK_ON_GPU


def smoothed_loss(
    features: Tensor, weight: Tensor, target: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns fairseq's ``label_smoothed_nll_loss`` of the logits ``features @ weight.T``, summed over rows.

    The target gets the probability 1 - epsilon, each of the other V - 1 classes epsilon / (V - 1).

    Args:
        features: (R, C), the decoder's output at R positions.
        weight: (V, C), the output projection.
        target: (R,), classes from 0 to V - 1, none of them padding.
        epsilon: label smoothing, from 0 to 1.
        dtype: of the matrix products. Softmax and sums are float32, or float64 if this is.

    Returns:
        The loss and the negative log-likelihood, scalars in nats; only the loss has a gradient.
    """
    eps_i = epsilon / (len(weight) - 1)
    loss, nll = chunked_loss(features, weight, target, partial(loss_and_grad_, eps_i=eps_i), dtype)
    return loss, nll


def chunked_loss(
    features: Tensor, weight: Tensor, target: Tensor, loss_of: Callable[..., tuple[Tensor, ...]], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Computes a loss of the logits ``features @ weight.T`` and other figures of them, summed over rows.

    Args:
        features, weight, target, dtype: as for :func:`smoothed_loss`.
        loss_of: takes the arguments of :func:`loss_and_grad_` except eps_i, and returns scalars, the loss first. It is
            called on consecutive rows, an even number in each call but the last.

    Returns:
        These scalars; only the loss has a gradient.
    """
    return ChunkedLoss.apply(features, weight, target, loss_of, dtype, torch.is_grad_enabled())


class ChunkedLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass, while a chunk's logits exist; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        target: Tensor,
        loss_of: Callable[..., tuple[Tensor, ...]],
        dtype: torch.dtype,
        needs_grad: bool,
    ) -> tuple[Tensor, ...]:
        """See :func:`chunked_loss`; ``needs_grad`` is False under ``torch.no_grad``, where no gradient is computed."""
        chunk, sum_dtype = chunk_rows(features.device), torch.promote_types(dtype, torch.float32)
        projection = weight.to(dtype)
        logits = features.new_empty(min(chunk, len(target)), len(weight), dtype=dtype)
        scratch = logits if dtype == sum_dtype else torch.empty_like(logits, dtype=sum_dtype)
        if needs_grad:
            d_features, d_weight = torch.empty_like(features), torch.zeros_like(weight, dtype=sum_dtype)
        sums = []
        for begin in range(0, max(1, len(target)), chunk):
            rows = slice(begin, begin + chunk)
            inputs, labels = features[rows].to(dtype), target[rows].unsqueeze(1)
            d_logits, log_probs = logits[: len(labels)], scratch[: len(labels)]
            torch.mm(inputs, projection.t(), out=d_logits)
            torch.log_softmax(log_probs.copy_(d_logits), 1, out=log_probs)
            sums.append(torch.stack(loss_of(log_probs, labels, d_logits)))
            if needs_grad:
                d_features[rows] = d_logits @ projection
                add_matmul_(d_weight, d_logits.t(), inputs)
        if needs_grad:
            ctx.save_for_backward(d_features, d_weight)
        # Clones, not views: if a process has no batch left, fairseq multiplies a dummy batch's loss by zero in place.
        loss, *figures = (total.clone() for total in torch.stack(sums).sum(0))
        ctx.mark_non_differentiable(*figures)
        return loss, *figures

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of features (R, C) and weight (V, C), times the gradient of the loss, a scalar."""
        if torch.is_grad_enabled():  # with create_graph
            raise RuntimeError("this loss has no second derivatives: use fairseq's label_smoothed_cross_entropy")
        d_features, d_weight = ctx.saved_tensors
        return d_features * d_loss, d_weight * d_loss, None, None, None, None


def loss_and_grad_(log_probs: Tensor, target: Tensor, d_logits: Tensor, eps_i: float) -> tuple[Tensor, Tensor]:
    """Writes the gradient with respect to the logits; returns the sums of loss and negative log-likelihood.

    Args:
        log_probs: (R, V), float32 or float64, overwritten.
        target: (R, 1).
        d_logits: (R, V), gets the gradient; may be ``log_probs``.
        eps_i: smoothed probability of each class but the target.
    """
    excess = 1 - log_probs.size(1) * eps_i  # probability of the target above eps_i
    nll = -log_probs.gather(1, target).sum()
    loss = excess * nll - eps_i * log_probs.sum()
    probs = log_probs.exp_()
    probs.scatter_add_(1, target, probs.new_full(target.shape, -excess))
    d_logits.copy_(probs.sub_(eps_i))  # torch.sub with an output of another dtype takes three times as long
    return loss, nll


def add_matmul_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds ``left @ right`` to ``total`` (N, M), which may have a wider dtype than left (N, K) and right (K, M)."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
