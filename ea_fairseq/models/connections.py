"""Connections of sub-layers other than sums: sub-layers read and write a state of several vectors per word.

A state is (T, B, n, C). Each sub-layer has a connection, with ``read`` (state -> x, before its norm, and a residual)
and ``write`` (residual, its output y -> state); a stack has a :class:`Stack`, which begins and ends the state.

- ``attention``: Kimi Team, Attention Residuals, 2026 (arXiv 2603.15031), full or in blocks. ``delta``: Luo et
  al., Delta Attention Residuals, 2026 (arXiv 2605.18855).
- ``hyper`` and ``mhc``, see ``streams.py``.
- ``dense``: Pagliardini et al., DenseFormer, NeurIPS 2024 (arXiv 2402.02622), connects layers, not sub-layers, as does
  ``mudd``, see ``mudd.py``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.models.mudd import WAYS, MultiwayMixture
from ea_fairseq.models.streams import HyperConnection, ManifoldConnection, Mixture, StreamGates


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
            return (self.norm(state).type_as(self.query) @ self.query.unsqueeze(-1)).softmax(-2).transpose(-1, -2)

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
