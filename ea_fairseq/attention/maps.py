"""The attention maps of a forward pass, for analysis."""

import re
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

STAGES = ("own", "input", "logits", "probabilities")  # of AttentionMaps, in the order of their computation
KINDS = {"encoder.self": "encoder", "decoder.self": "decoder", "decoder.encoder": "cross"}
NAME = re.compile(r"(encoder|decoder)\.(?:sentence_encoder\.)?layers\.(\d+)\.(self|encoder)_attn")
Found = TypeVar("Found")


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one attention for one sentence pair, (K, T, S), of K heads, T queries and S keys.

    A key that a query must not see, a later token in the decoder, has probability 0 and -inf in ``own``, ``input`` and
    ``logits``, so that ``logits.softmax(-1)`` is ``probabilities``. The convolution and the skip connection read 0
    there.

    Args:
        own: this layer's scores, Q K^T / sqrt(d).
        input: scores combined with the layer below, such as by evolving attention's skip connection.
        logits: the combined scores, transformed, such as by its convolution.
        probabilities: the softmax of the logits, without dropout.
        queries, keys: the T and S input tokens of rows and columns; the decoder's first token is ``</s>``, and in row t
            the decoder predicts the token of row t + 1.
    """

    own: Tensor
    input: Tensor
    logits: Tensor
    probabilities: Tensor
    queries: list[str]
    keys: list[str]

    @classmethod
    def from_record(cls, record: dict[str, Tensor | None], queries: list[str], keys: list[str]) -> "AttentionMaps":
        """Builds the maps of a batch of one pair from an attention's record."""
        maps = {name: tensor for name, tensor in record.items() if tensor is not None}
        masked = maps.pop("masked", None)
        if masked is not None:
            maps |= {name: maps[name].masked_fill(masked, -torch.inf) for name in ("own", "input", "logits")}
        return cls(**{name: tensor.squeeze(0).cpu() for name, tensor in maps.items()}, queries=queries, keys=keys)


def kind_of(name: str) -> str | None:
    """Returns ``encoder``, ``decoder`` or ``cross`` by an attention's name; None if it is not a Transformer's."""
    match = NAME.fullmatch(name)
    return match and KINDS[f"{match[1]}.{match[3]}"]


def by_layer(found: dict[str, Found]) -> dict[str, list[Found]]:
    """Turns values by the names of attentions into lists over the layers of ``encoder``, ``decoder`` and ``cross``."""
    layers: dict[str, dict[int, Found]] = {kind: {} for kind in KINDS.values()}
    for name, value in found.items():
        if match := NAME.fullmatch(name):
            layers[KINDS[f"{match[1]}.{match[3]}"]][int(match[2])] = value
    return {kind: [values[layer] for layer in sorted(values)] for kind, values in layers.items() if values}
