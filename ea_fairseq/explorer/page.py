"""A self-contained page of attention maps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ea_fairseq.attention.maps import STAGES, AttentionMaps, by_layer
from ea_fairseq.errors import UserError
from ea_fairseq.explorer.blocks import Blocks
from ea_fairseq.explorer.fixed_point import HIDDEN, FixedPoint
from ea_fairseq.explorer.template import EXPLORER, filled
from ea_fairseq.plain.files import write_whole

STYLES = ("theme.css", "explorer.css")
SCRIPTS = ("colours.js", "maps.js", "strips.js", "panel.js", "explorer.js")
END = "</s>"
SERIES_DIGITS = 4  # after the decimal point
MOST_WORDS = 120  # per sentence; with so many, the page of a Lite model has 14 MB
Maps = Mapping[str, AttentionMaps]  # by the name of the attention, as models return them


@dataclass(frozen=True)
class LayerMaps:
    """The page's data of one attention of one layer.

    Args:
        stages: those of STAGES that differ from the stage before.
    """

    stages: dict[str, FixedPoint]

    @classmethod
    def of(cls, maps: AttentionMaps) -> "LayerMaps":
        """Rounds the maps; stages that equal the one before are left out."""
        masked, stages, before = maps.own.isinf(), {}, None
        for name in STAGES:
            values = getattr(maps, name).float()
            if before is None or not torch.equal(values, before):
                stages[name] = FixedPoint.of(values, masked)
            before = values
        return cls(stages)

    def stage(self, name: str) -> FixedPoint:
        """Returns a stage, or the earlier one that it equals."""
        return next(self.stages[one] for one in reversed(STAGES[: STAGES.index(name) + 1]) if one in self.stages)


@dataclass(frozen=True)
class ModelMaps:
    """The page's data of a model.

    Args:
        layers: for each attention, ``encoder``, ``decoder`` or ``cross``.
        words: for each attention, the T queries and the S keys. A query of the cross-attention is the word that is
            predicted.
        series: (T, C), for a model of time series; its words are steps, or blocks of steps if there are many.
        note: text below the name, such as the model's prediction.
        unit: what attends: a ``word``, a ``step`` or a ``node``.
    """

    name: str
    layers: dict[str, list[LayerMaps]]
    words: dict[str, tuple[list[str], list[str]]]
    series: np.ndarray | None = None
    note: str = ""
    unit: str = "word"

    @classmethod
    def of(
        cls, name: str, maps: Maps, series: np.ndarray | None = None, note: str = "", unit: str = "word"
    ) -> "ModelMaps":
        """
        Args:
            series: (T, C), for a model of time series; more than MOST_WORDS steps are shown in blocks.

        Raises:
            UserError: if there is no map of a Transformer's attention.
        """
        found = by_layer(dict(maps))
        if not found:
            raise UserError(f"{name} has no attention maps of a Transformer to show")
        if series is not None:
            blocks = Blocks.of(len(series), MOST_WORDS)
            found = {kind: list(map(blocks.maps, layers)) for kind, layers in found.items()}
            series = blocks.series(series)
        words = {}
        for kind, layers in found.items():
            queries = layers[0].queries
            words[kind] = ([*queries[1:], END] if kind == "cross" else queries, layers[0].keys)
        require_few(words)
        unit = unit if series is None else "step"
        layers_of = {kind: list(map(LayerMaps.of, layers)) for kind, layers in found.items()}
        return cls(name, layers_of, words, series, note, unit)

    @property
    def record(self) -> dict:
        """The data that the page's script reads."""
        return {
            "name": self.name,
            "note": self.note,
            "attentions": {
                kind: {
                    "queries": self.words[kind][0],
                    "keys": self.words[kind][1],
                    "layers": [
                        {name: [stage.digits, stage.text] for name, stage in layer.stages.items()} for layer in layers
                    ],
                }
                for kind, layers in self.layers.items()
            },
        }

    def rows(self) -> Iterator[tuple]:
        """Yields attention, stage, layer, head, query, its word, key, its word and displayed value; counts from 1."""
        for kind, layers in self.layers.items():
            queries, keys = self.words[kind]
            for stage in STAGES:
                for layer, maps in enumerate(layers, start=1):
                    found = maps.stage(stage)
                    heads = [*map(str, range(1, len(found.numbers))), "mean"]
                    for head, query, key in np.argwhere(found.numbers != HIDDEN):
                        places = query + 1, queries[query], key + 1, keys[key]
                        yield kind, stage, layer, heads[head], *places, found.shown(head, query, key)


def require_few(words: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Raises UserError if a map has more words than a page holds."""
    longest = max(len(side) for sides in words.values() for side in sides)
    if longest > MOST_WORDS:
        raise UserError(f"a sentence has {longest} tokens, but a page shows {MOST_WORDS}: shorten it")


def attention_page(models: list[ModelMaps], title: str) -> str:
    """Returns the page of one model, or of two that read the same words.

    Raises:
        UserError: if two models have no attention in common that reads the same words.
    """
    first = models[0]
    common = [kind for kind in first.words if all(model.words.get(kind) == first.words[kind] for model in models)]
    if not common:
        raise UserError("these models have no attention in common that reads the same words")
    records = [model.record for model in models]
    for record in records:
        record["attentions"] = {kind: record["attentions"][kind] for kind in common}
    series = None if first.series is None else np.around(first.series, SERIES_DIGITS).T.tolist()
    data = {"title": title, "models": records, "series": series, "unit": first.unit}
    styles, scripts = ([EXPLORER / name for name in names] for names in (STYLES, SCRIPTS))
    return filled(EXPLORER / "explorer.html", title, styles, scripts, data)


def write_attention_page(path: str | Path, models: list[ModelMaps], title: str) -> Path:
    """Writes the page, whole or not at all; returns its path."""
    path = Path(path)
    write_whole(path, attention_page(models, title))
    return path
