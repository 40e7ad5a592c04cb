"""The attention maps of a forward pass, for analysis."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

STAGES = ("own", "input", "logits", "probabilities")  # of AttentionMaps, in the order of their computation
KINDS = {"encoder.self": "encoder", "decoder.self": "decoder", "decoder.encoder": "cross"}
NAME = re.compile(r"(encoder|decoder)\.(?:sentence_encoder\.)?layers\.(\d+)\.(self|encoder)_attn")
Found = TypeVar("Found")


@dataclass(frozen=True)
class AttentionMaps:
    """What one attention computed for one sentence pair: maps (K, T, S) of K heads, T queries and S keys.

    A key that a query must not see, a later word in the decoder, has -inf as ``own``, ``input`` and ``logits``, so
    that ``logits.softmax(-1)`` is ``probabilities``, and 0 as its probability. The convolution and the skip
    connection read 0 there.

    Args:
        own: this layer's Q K^T / sqrt(d).
        input: the same combined with the layer below, as after evolving attention's skip connection.
        logits: the same transformed, as after its convolution.
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
        if record["masked"] is not None:
            maps = {name: logits.masked_fill(record["masked"], -torch.inf) for name, logits in maps.items()}
        maps["probabilities"] = record["probabilities"]
        return cls(**{name: tensor.squeeze(0).cpu() for name, tensor in maps.items()}, queries=queries, keys=keys)


class AttentionByName(dict[str, AttentionMaps]):
    """The maps of a model's attentions by their names, such as ``encoder.layers.0.self_attn``.

    Args:
        series: (T, C) as a model of time series read it.
        texts: that the model read.
        model: its name.
    """

    def __init__(
        self,
        maps: Mapping[str, AttentionMaps] = MappingProxyType({}),
        series: np.ndarray | None = None,
        texts: tuple[str, ...] = (),
        model: str = "model",
    ):
        super().__init__(maps)
        self.series, self.texts, self.model = series, texts, model

    def to_html(
        self, path: str | Path, title: str | None = None, name: str | None = None, **others: "AttentionByName"
    ) -> Path:
        """Writes a page on which layers, heads and stages are explored in a browser, without a network.

        Args:
            title: of the page, by default the models and the texts.
            name: of the model, by default its architecture.
            others: one more model's maps of the same words, by its name, to stand beside them.

        Returns:
            The path.

        Raises:
            UserError: where models read other words.
        """
        from ea_fairseq.explorer.page import ModelMaps, write_attention_page

        named = {name or self.model: self, **others}
        models = [ModelMaps.of(called, maps, maps.series) for called, maps in named.items()]
        return write_attention_page(path, models, title or self.title(named))

    def title(self, names: Iterable[str]) -> str:
        """What a page of models with these names shows."""
        texts = " and ".join(f"“{text}”" for text in self.texts)
        return f"Attention of {' and '.join(names)}{texts and f' while reading {texts}'}"

    def bertviz(self) -> dict[str, list]:
        """The probabilities as BertViz takes them: ``bertviz.model_view(**maps.bertviz())``, and ``head_view``.

        Returns:
            Lists over layers of maps (1, K, T, S), and the words, by the names of BertViz's arguments; of an encoder
            alone ``attention`` and ``tokens``.
        """
        layers = by_layer(self)
        maps = {kind: [one.probabilities.unsqueeze(0) for one in found] for kind, found in layers.items()}
        if set(maps) == {"encoder"}:
            return {"attention": maps["encoder"], "tokens": layers["encoder"][0].keys}
        words = {f"{kind}_tokens": layers[kind][0].queries for kind in ("encoder", "decoder") if kind in layers}
        return {f"{kind}_attention": found for kind, found in maps.items()} | words


def kind_of(name: str) -> str | None:
    """``encoder``, ``decoder`` or ``cross`` of a model's attention, by its name; None where it is of no Transformer."""
    match = NAME.fullmatch(name)
    return match and KINDS[f"{match[1]}.{match[3]}"]


def by_layer(found: dict[str, Found]) -> dict[str, list[Found]]:
    """What was found of each attention's name, as lists over the layers of ``encoder``, ``decoder`` and ``cross``."""
    layers = {kind: {} for kind in KINDS.values()}
    for name, value in found.items():
        if match := NAME.fullmatch(name):
            layers[kind_of(name)][int(match[2])] = value
    return {kind: [values[layer] for layer in sorted(values)] for kind, values in layers.items() if values}
