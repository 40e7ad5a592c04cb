"""Connections of sub-layers other than sums: sub-layers read and write a state of several vectors per word.

A state is (T, B, n, C). Each sub-layer has a connection, with ``read`` (state -> x, before its norm, and a residual)
and ``write`` (residual, its output y -> state); a stack has a :class:`Stack`, which begins and ends the state.

- ``attention``: Kimi Team, Attention Residuals, 2026 (arXiv 2603.15031), full or in blocks. ``delta``: Luo et
  al., Delta Attention Residuals, 2026 (arXiv 2605.18855).
- ``hyper``: Zhu et al., Hyper-Connections, ICLR 2025 (arXiv 2409.19606), dynamic. ``mhc``: Xie et al.,
  Manifold-Constrained Hyper-Connections, 2025 (arXiv 2512.24880), as in DeepSeek-V4.
- ``dense``: Pagliardini et al., DenseFormer, NeurIPS 2024 (arXiv 2402.02622), connects layers, not sub-layers, as does
  ``mudd``, see ``mudd.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.models.mudd import WAYS, MultiwayMixture


class Mixture(nn.Module):
    """Weighted sums of a word's vectors; a module, so that their cost is counted where it belongs.

    Autocast does not round them, because a model has as many in a row as it has sub-layers.
    """

    def forward(self, state: Tensor, weights: Tensor) -> Tensor:
        """(T, B, n, C), (T, B, m, n) -> (T, B, m, C)"""
        with torch.autocast(state.device.type, enabled=False):
            return weights.type_as(state) @ state


class AttentionResidual(nn.Module):
    """A sub-layer reads a mean of the embedding and all outputs s_i before it: h = sum_i p_i s_i,

    p = softmax_i(w . RMSNorm(s_i)). The state is all s_i; with blocks, s_i is the sum of a block's outputs so far.
    Parameters are ``query`` (C), w, zeros at the start, and those of ``norm``.
    """

    begins_block = True  # whether its output is a new s_i instead of being added to the last

    def __init__(self, width: int, layer: int = 0, streams: int = 1):
        super().__init__()
        self.query, self.norm, self.mix = nn.Parameter(torch.zeros(width)), RMSNorm(width), Mixture()

    def forward(self, state: Tensor) -> Tensor:
        """(T, B, n, C) -> p (T, B, 1, n), not rounded by autocast."""
        with torch.autocast(state.device.type, enabled=False):
            return (self.norm(state) @ self.query.unsqueeze(-1)).softmax(-2).transpose(-1, -2)

    def mean(self, state: Tensor) -> Tensor:
        """(T, B, n, C) -> (T, B, C)"""
        return self.mix(state, self(state)).squeeze(-2)

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(T, B, n, C) -> (T, B, C), and the state."""
        return self.mean(state), state

    def write(self, state: Tensor, y: Tensor) -> Tensor:
        """(T, B, n, C), (T, B, C) -> (T, B, n + 1, C); (T, B, n, C) within a block."""
        y = y.unsqueeze(-2)
        if self.begins_block:
            return torch.cat([state, y], dim=-2)
        return torch.cat([state[..., :-1, :], state[..., -1:, :] + y], dim=-2)


class DeltaResidual(AttentionResidual):
    """A sub-layer reads the sum of all s_i before it plus, from the second sub-layer on, their mean as above."""

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(T, B, n, C) -> (T, B, C), and the state."""
        return self.mix(state, 1 + (state.size(-2) > 1) * self(state)).squeeze(-2), state


def spread_over_streams(y: Tensor, weights: Tensor) -> Tensor:
    """Multiplies an output y (T, B, C) by the weight of each stream, (T, B, n), to (T, B, n, C)."""
    return weights.unsqueeze(-1) * y.unsqueeze(-2)


class HyperConnection(nn.Module):
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
        self.scales, self.mix = nn.Parameter(torch.full((2,), 0.01)), Mixture()

    def read(self, state: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(T, B, n, C) -> (T, B, C), and mixed streams (T, B, n, C) with their b (T, B, n)."""
        # Weights a (T, B, 1, n), M (T, B, n, n), to and from streams, and b.
        dynamic = self.dynamic(F.layer_norm(state, state.shape[-1:])).tanh().transpose(-1, -2)
        read, mixing, write = dynamic.split([1, state.size(-2), 1], dim=-2)
        reading = self.read_weights + self.scales[0] * read
        mixing = self.stream_weights + self.scales[0] * mixing
        writing = self.write_weights + self.scales[1] * write[..., 0, :]
        # One product for what the sub-layer reads and for the streams that it will write to.
        x, streams = self.mix(state, torch.cat([reading, mixing], dim=-2)).split([1, state.size(-2)], dim=-2)
        return x.squeeze(-2), (streams, writing)

    def write(self, residual: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        """Mixed streams (T, B, n, C) with their b, and (T, B, C) -> (T, B, n, C)"""
        streams, writing = residual
        return streams + spread_over_streams(y, writing)


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
        numbers = F.linear(F.rms_norm(flat, flat.shape[-1:], eps=self.EPSILON), self.weight)
        scales = torch.cat([scale.expand(size) for scale, size in zip(self.scales, self.groups, strict=True)])
        return ((numbers * scales + self.bias).sigmoid() + self.EPSILON).split(self.groups, dim=-1)


class ManifoldConnection(nn.Module):
    """n streams, mixed by matrices whose rows and columns sum to 1 (Sinkhorn and Knopp, 1967):

    x = sum_s pre_s H_s and H <- M H + post y^T, with pre, post and the unnormalized M from ``gates``.
    """

    ROUNDS = 20

    def __init__(self, width: int, layer: int, streams: int):
        super().__init__()
        self.gates, self.mix = StreamGates(width, streams, streams, streams, streams**2), Mixture()

    def read(self, state: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(T, B, n, C) -> (T, B, C), and mixed streams (T, B, n, C) with their post (T, B, n)."""
        # Weights pre (T, B, n) and post, and M (T, B, n, n), whose rows and columns are normalized in turn.
        pre, post, mixing = self.gates(state)
        mixing = mixing.unflatten(-1, (state.size(-2), -1))
        for _ in range(self.ROUNDS):
            mixing = mixing / (mixing.sum(-1, keepdim=True) + StreamGates.EPSILON)
            mixing = mixing / (mixing.sum(-2, keepdim=True) + StreamGates.EPSILON)
        # One product for what the sub-layer reads and for the streams that it will write to.
        weights = torch.cat([pre.unsqueeze(-2), mixing], dim=-2)
        x, streams = self.mix(state, weights).split([1, state.size(-2)], dim=-2)
        return x.squeeze(-2), (streams, post)

    def write(self, residual: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        """Mixed streams (T, B, n, C) with their post, and (T, B, C) -> (T, B, n, C)"""
        streams, post = residual
        return streams + spread_over_streams(y, post)


CONNECTIONS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "attention": AttentionResidual,
    "delta": DeltaResidual,
    "hyper": HyperConnection,
    "mhc": ManifoldConnection,
}


class Stack(nn.Module):
    """Computes what a stack's first layer reads, what later layers read of the states so far, and the stack's output.

    Parameters are those of ``reader``, a connection or gates at the end, or ``weights`` of DenseFormer, (l + 1) after
    layer l, which start as the layer's own output, or ``mixtures`` of MUDD, of four ways or, at the end, of one.

    Args:
        name: the connections' name: ``residual``, ``dense``, ``mudd`` or one of ``CONNECTIONS``.
    """

    def __init__(self, name: str, width: int, layers: int, streams: int):
        super().__init__()
        self.name, self.streams = name, streams
        if name == "attention":
            self.reader: Any = AttentionResidual(width)
        elif name == "mhc":
            self.reader, self.mix = StreamGates(width, streams, streams), Mixture()
        elif name == "dense":
            self.weights = nn.ParameterList(torch.eye(layer + 1)[-1] for layer in range(1, layers + 1))
        elif name == "mudd":
            ways = enumerate([WAYS] * (layers - 1) + [1], start=2)
            self.mixtures = nn.ModuleList(MultiwayMixture(width, vectors, count) for vectors, count in ways)

    def begin(self, x: Tensor) -> Tensor:
        """Returns the first state, from embeddings x (T, B, C)."""
        if self.name not in CONNECTIONS:
            return x
        return x.unsqueeze(-2).repeat(1, 1, self.streams if self.name in ("hyper", "mhc") else 1, 1)

    def layer_input(self, states: list[Tensor]) -> Tensor:
        """Returns the next layer's input from the embedding and the layers' outputs so far; MUDD's (4, T, B, C)."""
        if self.name not in ("dense", "mudd") or len(states) == 1:
            return states[-1]
        if self.name == "mudd":
            return self.mixtures[len(states) - 2](states)
        weights = self.weights[len(states) - 2]
        return sum(
            (weight * state for weight, state in zip(weights[1:], states[1:], strict=True)), weights[0] * states[0]
        )

    def end(self, states: list[Tensor]) -> Tensor:
        """Returns the stack's output before its norm, (T, B, C)."""
        state = self.layer_input(states)
        if self.name == "attention":
            return self.reader.mean(state)
        if self.name == "mhc":
            return self.mix(state, self.reader(state)[0].unsqueeze(-2)).squeeze(-2)
        if self.name == "mudd" and len(states) > 1:
            return state[0]
        return state.sum(-2) if self.name in CONNECTIONS else state
