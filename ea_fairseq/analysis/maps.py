"""The attention maps of a forward pass, for analysis."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.attention import EvolvingAttention
from ea_fairseq.mechanisms.evolution import ENCODER_WINDOW, Evolution

KINDS = {"encoder.self": "encoder", "decoder.self": "decoder", "decoder.encoder": "cross"}
NAME = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(self|encoder)_attn")
PLAIN = Evolution(ENCODER_WINDOW, alpha=0.0, beta=0.0, kernel_size=1)
Found = TypeVar("Found")


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
    """Records the maps of each attention of a model, by the attention's name, until the context ends.

    Each record has the tensors ``own``, ``input``, ``logits`` and ``probabilities``, all (B, K, T, S), of the last
    pass and ``unseen``, true where a query must not see a key. fairseq's own attentions compute what they always do,
    and a shadow beside each of them records. A compiled model runs uncompiled meanwhile.
    """
    records = {}
    with ExitStack() as end:
        for name, attention in list(model.named_modules()):
            if not isinstance(attention, MultiheadAttention):
                continue
            if not isinstance(attention, EvolvingAttention):
                shadow = shadow_of(attention)
                end.enter_context(attention.register_forward_pre_hook(follow(shadow), with_kwargs=True))
                attention = shadow
            end.callback(setattr, attention, "recorded", None)
            records[name] = attention.recorded = {}
        with torch.compiler.set_stance("force_eager"):
            yield records


def shadow_of(attention: MultiheadAttention) -> EvolvingAttention:
    """An attention that can record, does not evolve, and shares the parameters of fairseq's ``attention``."""
    shadow = EvolvingAttention(
        attention.embed_dim,
        attention.num_heads,
        PLAIN,
        kdim=attention.kdim,
        vdim=attention.vdim,
        self_attention=attention.self_attention,
        encoder_decoder_attention=attention.encoder_decoder_attention,
    )
    for name, module in attention.named_children():
        setattr(shadow, name, module)
    return shadow


def follow(shadow: EvolvingAttention):
    """A hook that lets a shadow read what its attention reads."""

    def hook(attention: nn.Module, args: tuple, kwargs: dict) -> None:
        shadow(*args, **kwargs)

    return hook


def by_layer(found: dict[str, Found]) -> dict[str, list[Found]]:
    """What was found of each attention's name, as lists over the layers of ``encoder``, ``decoder`` and ``cross``."""
    layers = {kind: {} for kind in KINDS.values()}
    for name, value in found.items():
        if match := NAME.fullmatch(name):
            side, layer, attended = match.groups()
            layers[KINDS[f"{side}.{attended}"]][int(layer)] = value
    return {kind: [values[layer] for layer in sorted(values)] for kind, values in layers.items() if values}
