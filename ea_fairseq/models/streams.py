"""Connections of several streams: sub-layers read a weighted sum of n vectors per word, and write to all of them.

- ``hyper``: Zhu et al., Hyper-Connections, ICLR 2025 (arXiv 2409.19606), dynamic.
- ``mhc``: Xie et al., Manifold-Constrained Hyper-Connections, 2025 (arXiv 2512.24880), as in DeepSeek-V4.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mixture(nn.Module):
    """Weighted sums of a word's vectors; a module, so that their cost is counted where it belongs.

    Autocast does not round them, because a model has as many in a row as it has sub-layers.
    """

    def forward(self, state: Tensor, weights: Tensor) -> Tensor:
        """(T, B, n, C), (T, B, m, n) -> (T, B, m, C)"""
        with torch.autocast(state.device.type, enabled=False):
            return weights.type_as(state) @ state


class StreamConnection(nn.Module):
    """Code that connections of n streams share."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = Mixture()

    def read_and_mix(self, state: Tensor, reading: Tensor, mixing: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what a sub-layer reads, (T, B, C), and the streams that it will write to, (T, B, n, C).

        Args:
            reading: weights of the streams, (T, B, 1, n); mixing: (T, B, n, n), to and from streams.
        """
        x, streams = self.mix(state, torch.cat([reading, mixing], dim=-2)).split([1, state.size(-2)], dim=-2)
        return x.squeeze(-2), streams

    def write(self, residual: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        """Mixed streams (T, B, n, C) with their weights of the output (T, B, n), and y (T, B, C) -> (T, B, n, C)"""
        streams, weights = residual
        return torch.addcmul(streams, weights.unsqueeze(-1), y.unsqueeze(-2))


class HyperConnection(StreamConnection):
    """n streams: x = sum_s a_s H_s and H_r <- sum_s M_rs H_s + b_r y, with weights that depend on the streams.

    Stream s has (a_s, M_rs, b_s) = static + scale tanh(W LayerNorm(H_s)). Parameters are ``read_weights`` (n), e_l,
    ``stream_weights`` (n, n), the identity, ``write_weights`` (n), ones; ``dynamic`` (n + 2, C), W, zeros; and
    ``scales`` (2), 0.01, the second for b. At the start this is the residual connection.
    """

    def __init__(self, width: int, layer: int, streams: int):
        super().__init__()
        identity = torch.eye(streams)
        self.read_weights = nn.Parameter(identity[layer % streams].clone())
        self.stream_weights, self.write_weights = nn.Parameter(identity), nn.Parameter(torch.ones(streams))
        self.dynamic = nn.Linear(width, streams + 2, bias=False)
        nn.init.zeros_(self.dynamic.weight)
        self.scales = nn.Parameter(torch.full((2,), 0.01))

    def read(self, state: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(T, B, n, C) -> (T, B, C), and mixed streams (T, B, n, C) with their b (T, B, n)."""
        # Weights a (T, B, 1, n), M (T, B, n, n), to and from streams, and b.
        dynamic = self.dynamic(F.layer_norm(state, state.shape[-1:])).tanh().transpose(-1, -2)
        read, mixing, write = dynamic.split([1, state.size(-2), 1], dim=-2)
        reading = self.read_weights + self.scales[0] * read
        mixing = self.stream_weights + self.scales[0] * mixing
        writing = self.write_weights + self.scales[1] * write[..., 0, :]
        x, streams = self.read_and_mix(state, reading, mixing)
        return x, (streams, writing)


class StreamGates(nn.Module):
    """Numbers between 0 and 1 for each word, from all of its streams: sigmoid(scale W RMS(vec H) + bias) + 1e-6.

    Args:
        groups: how many numbers belong to each scale. Parameters are ``weight`` (sum, n C), random with a standard
            deviation of 0.02, ``bias`` (sum), zeros, and ``scales``, ones.
    """

    EPSILON = 1e-6

    def __init__(self, width: int, streams: int, *groups: int):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(0.02 * torch.randn(sum(groups), streams * width))
        self.bias, self.scales = nn.Parameter(torch.zeros(sum(groups))), nn.Parameter(torch.ones(len(groups)))

    def forward(self, state: Tensor) -> Sequence[Tensor]:
        """(T, B, n, C) -> (T, B, numbers) of each group."""
        flat = state.flatten(-2)
        # W RMS(x) as (W x) / sqrt(mean(x^2) + epsilon), which writes no normalized streams.
        root = torch.linalg.vector_norm(flat, dim=-1, keepdim=True) / math.sqrt(flat.size(-1))
        numbers = F.linear(flat, self.weight) / root.hypot(root.new_tensor(math.sqrt(self.EPSILON)))
        scales = torch.cat([scale.expand(size) for scale, size in zip(self.scales, self.groups, strict=True)])
        return ((numbers * scales + self.bias).sigmoid() + self.EPSILON).split(self.groups, dim=-1)


class Sinkhorn(torch.autograd.Function):
    """Divides rows and columns of matrices (..., n, n) in turn by their sums plus epsilon (Sinkhorn and Knopp, 1967).

    The matrices' own dimensions come first, so that each step is a few operations on long rows. The backward pass goes
    back from the result, step by step, so only the result and the sums are saved.
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, rounds: int, epsilon: float) -> Tensor:
        """(..., n, n) -> (..., n, n)"""
        x, ctx.sums = matrices.movedim((-2, -1), (0, 1)).contiguous(), []
        for dim in (1, 0) * rounds:
            sums = x.sum(dim, keepdim=True) + epsilon
            x = x / sums
            ctx.sums.append((dim, sums))
        ctx.save_for_backward(x)
        return x.movedim((0, 1), (-2, -1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Returns the gradient of the matrices."""
        (x,) = ctx.saved_tensors
        grad = grad.movedim((-2, -1), (0, 1)).contiguous()
        for dim, sums in reversed(ctx.sums):
            grad = (grad - (grad * x).sum(dim, keepdim=True)) / sums
            x = x * sums
        return grad.movedim((0, 1), (-2, -1)), None, None


class ManifoldConnection(StreamConnection):
    """n streams, mixed by matrices whose rows and columns sum to 1:

    x = sum_s pre_s H_s and H <- M H + post y^T, with pre, post and the unnormalized M from ``gates``.
    """

    ROUNDS = 20

    def __init__(self, width: int, layer: int, streams: int):
        super().__init__()
        self.gates = StreamGates(width, streams, streams, streams, streams**2)

    def read(self, state: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(T, B, n, C) -> (T, B, C), and mixed streams (T, B, n, C) with their post (T, B, n)."""
        # Weights pre (T, B, n) and post, and M (T, B, n, n), whose rows and columns are normalized in turn.
        pre, post, mixing = self.gates(state)
        mixing = Sinkhorn.apply(mixing.unflatten(-1, (state.size(-2), -1)), self.ROUNDS, StreamGates.EPSILON)
        x, streams = self.read_and_mix(state, pre.unsqueeze(-2), mixing)
        return x, (streams, post)
