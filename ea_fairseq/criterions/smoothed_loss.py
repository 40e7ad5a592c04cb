"""Label-smoothed cross entropy of features and target words, without the logits of a whole batch."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 512  # rows of logits at a time: with 10,000 words, 20 MB that stay in a cache while they are worked on
CHUNK_ON_GPU = 4096  # few launches there matter more


def chunk_rows(device: torch.device) -> int:
    return CHUNK if device.type == "cpu" else CHUNK_ON_GPU


def smoothed_loss(
    features: Tensor, weight: Tensor, target: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """What fairseq's label_smoothed_nll_loss makes of the logits ``features @ weight.T``.

    Args:
        features: (R, C); weight: (V, C); target: (R,), words, none of them padding.
        epsilon: probability that is spread evenly over all words but the target.
        dtype: what to multiply matrices in. The softmax and all sums are float32 or, for float64, that.

    Returns:
        Sums over words: the loss, and the negative log-likelihood, which has no gradient.
    """
    return SmoothedLoss.apply(features, weight, target, epsilon, dtype, torch.is_grad_enabled())


class SmoothedLoss(torch.autograd.Function):
    """Makes the gradients along with the loss, chunk by chunk."""

    @staticmethod
    def forward(ctx, features, weight, target, epsilon, dtype, learning):
        words, chunk = len(weight), chunk_rows(features.device)
        others = epsilon / (words - 1)
        exact = torch.promote_types(dtype, torch.float32)
        projection = weight.to(dtype)
        logits = features.new_empty(min(chunk, len(target)), words, dtype=dtype)
        scratch = logits if dtype == exact else torch.empty_like(logits, dtype=exact)
        loss, nll = (features.new_zeros((), dtype=exact) for _ in range(2))
        if learning:
            d_features, d_weight = torch.empty_like(features), torch.zeros_like(weight, dtype=exact)
        for begin in range(0, len(target), chunk):
            rows = slice(begin, begin + chunk)
            inputs, labels = features[rows].to(dtype), target[rows].unsqueeze(1)
            torch.mm(inputs, projection.t(), out=logits[: len(labels)])
            losses = descend(logits[: len(labels)], labels, others, scratch[: len(labels)])
            loss += losses[0]
            nll += losses[1]
            if learning:
                d_logits = logits[: len(labels)]
                d_features[rows] = d_logits @ projection
                add_product(d_weight, d_logits.t(), inputs)
        if learning:
            ctx.save_for_backward(d_features, d_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx, d_loss, _):
        d_features, d_weight = ctx.saved_tensors
        return d_features * d_loss, d_weight * d_loss, None, None, None, None


def descend(logits: Tensor, target: Tensor, others: float, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of loss and negative log-likelihood; turns the logits into the loss's gradient by them.

    Args:
        logits: (R, V); target: (R, 1); scratch: (R, V), float32 or more precise, may be the logits.
        others: probability that smoothing gives to each word but the target.
    """
    own = 1 - logits.size(1) * others  # what the target gets beyond that
    log_probabilities = torch.log_softmax(scratch.copy_(logits), 1, out=scratch)
    nll = -log_probabilities.gather(1, target).sum()
    loss = own * nll - others * log_probabilities.sum()
    probabilities = log_probabilities.exp_()
    probabilities.scatter_add_(1, target, probabilities.new_full(target.shape, -own))
    torch.sub(probabilities, others, out=logits)
    return loss, nll


def add_product(total: Tensor, left: Tensor, right: Tensor):
    """Adds a matrix product to a total that may be more precise."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
