"""The attention maps of a forward pass, for analysis."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ea_fairseq.evolving_attention import EvolvingAttention


@dataclass(frozen=True)
class AttentionMaps:
    """What one attention computed for one sentence pair: maps (K, T, S) of K heads, T queries and S keys.

    A key that a query must not see, a later word in the decoder, has -inf as ``own``, ``input`` and ``logits``, so
    that ``logits.softmax(-1)`` is ``probabilities``, and 0 as its probability. The convolution and the skip
    connection read 0 there.

    Args:
        own: this layer's Q K^T / sqrt(d).
        input: the same after the skip connection.
        logits: the same after the convolution.
        probabilities: their softmax, without dropout.
        queries, keys: the T and S words that rows and columns belong to, as the encoder or the decoder reads them;
            the decoder reads ``</s>`` first, and in row t predicts the word that row t + 1 belongs to.
    """

    own: Tensor
    input: Tensor
    logits: Tensor
    probabilities: Tensor
    queries: list[str]
    keys: list[str]

    @classmethod
    def from_record(cls, record: dict[str, Tensor | None], queries: list[str], keys: list[str]) -> "AttentionMaps":
        """Takes the maps of a batch of one pair from what an attention recorded."""
        maps = {name: record[name] for name in ("own", "input", "logits")}
        if record["unseen"] is not None:
            maps = {name: logits.masked_fill(record["unseen"], -torch.inf) for name, logits in maps.items()}
        maps["probabilities"] = record["probabilities"]
        return cls(**{name: tensor.squeeze(0).cpu() for name, tensor in maps.items()}, queries=queries, keys=keys)


@contextmanager
def recording(model: nn.Module) -> Iterator[dict[str, dict[str, Tensor | None]]]:
    """Records the maps of each evolving attention of a model, by the attention's name, until the context ends.

    Each record has the tensors ``own``, ``input``, ``logits`` and ``probabilities``, all (B, K, T, S), of the last
    pass and ``unseen``, true where a query must not see a key. A compiled model runs uncompiled meanwhile.
    """
    attentions = {name: module for name, module in model.named_modules() if isinstance(module, EvolvingAttention)}
    records = {name: {} for name in attentions}
    try:
        for name, attention in attentions.items():
            attention.recorded = records[name]
        with torch.compiler.set_stance("force_eager"):
            yield records
    finally:
        for attention in attentions.values():
            attention.recorded = None
