"""Evolving attention's maps on a GPU: times of the fused operation, of PyTorch's chain of operations, of the floor."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ea_fairseq.kernels.dispatch import FusedArguments, by_head
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.kernels.window import ENCODER_WINDOW

ALPHA, BETA = 0.5, 0.1


@dataclass(frozen=True)
class OperationTimes:
    """Milliseconds of forward and backward together; ``floor`` is that of moving five maps at a copy's speed.

    Five, because a kernel that did all else on its chip would still take the previous logits and hand on its own, and
    do so with their gradients, of which two come in.
    """

    fused: float
    naive: float
    floor: float


def operation_times(
    heads: int,
    sentences: int,
    length: int,
    dtype: torch.dtype,
    device: str = "cuda",
    kernel: int = 3,
    measure: Callable[[Callable[[], object]], float] | None = None,
) -> OperationTimes:
    """Times the maps of an encoder's self-attention whose sentences have ``length`` words and less.

    Args:
        measure: takes what to time and returns milliseconds; by default Triton's do_bench.
    """
    if measure is None:
        from triton.testing import do_bench as measure
    shape = sentences, heads, length, length
    scores, previous, *gradients = (torch.randn(shape, device=device, dtype=dtype) for _ in range(4))
    weight = torch.randn(heads, heads, kernel, kernel, device=device) / (heads**0.5 * kernel)
    bias = torch.zeros(heads, device=device)
    padding = torch.arange(length, device=device) >= torch.randint(length // 2, length + 1, (sentences, 1)).to(device)
    left, _, above, _ = ENCODER_WINDOW.margins(kernel)
    blank = padding[:, None, None, :] | padding[:, None, :, None]
    gradients = [gradient.masked_fill(blank, 0.0) for gradient in gradients]
    mix, beta = by_head(heads, scores.device, 1 - ALPHA, ALPHA), by_head(heads, scores.device, BETA)
    arguments = FusedArguments(previous, mix, weight, bias, beta, padding, padding, None, 1.0, above, left)

    def fused():
        _, *saved = triton_evolution.forward(scores, arguments)
        found = triton_evolution.backward(*gradients, *saved, None, arguments)
        return [gradient for gradient in found if gradient is not None]

    leaves = [tensor.to(dtype).requires_grad_() for tensor in (scores, previous, weight, bias)]

    def naive():
        return torch.autograd.grad(naive_chain(*leaves, padding), leaves, gradients)

    half = scores.new_empty(5 * scores.numel() // 2)
    target = torch.empty_like(half)
    return OperationTimes(measure(fused), measure(naive), measure(lambda: target.copy_(half)))


def naive_chain(scores: Tensor, previous: Tensor, weight: Tensor, bias: Tensor, padding: Tensor) -> list[Tensor]:
    """Logits and probabilities as plain PyTorch computes them."""
    unseen = padding[:, None, None, :]
    mixed = torch.lerp(scores, previous, ALPHA).masked_fill(unseen | padding[:, None, :, None], 0.0)
    convolved = F.conv2d(mixed, weight, bias, padding=weight.size(-1) // 2)
    logits = torch.lerp(mixed, F.relu(convolved), BETA)
    visible = logits.masked_fill(unseen, torch.finfo(logits.dtype).min)
    return [logits, visible.softmax(dim=-1, dtype=torch.float32).type_as(visible)]
