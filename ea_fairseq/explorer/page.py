"""One page with attention maps in it, which needs nothing beside itself and loads nothing."""

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
from ea_fairseq.plain.whole_files import write_whole

STYLES = ("theme.css", "explorer.css")
SCRIPTS = ("colours.js", "maps.js", "strips.js", "panel.js", "explorer.js")
END = "</s>"
SERIES_DIGITS = 4  # behind the point
MOST_WORDS = 120  # of a sentence; of so many a page has 14 MB for a model of the Lite size
Maps = Mapping[str, AttentionMaps]  # by the name of the attention, as models return them


@dataclass(frozen=True)
class LayerMaps:
    """What the page has of one attention of one layer.

    Args:
        stages: of STAGES those that differ from the one before.
    """

    stages: dict[str, FixedPoint]

    @classmethod
    def of(cls, maps: AttentionMaps) -> "LayerMaps":
        """Rounds the maps; where nothing evolves, the logits are one stage."""
        masked, stages, before = maps.own.isinf(), {}, None
        for name in STAGES:
            values = getattr(maps, name).float()
            if before is None or not torch.equal(values, before):
                stages[name] = FixedPoint.of(values, masked)
            before = values
        return cls(stages)

    def stage(self, name: str) -> FixedPoint:
        """A stage, or that which it equals."""
        return next(self.stages[one] for one in reversed(STAGES[: STAGES.index(name) + 1]) if one in self.stages)


@dataclass(frozen=True)
class ModelMaps:
    """What the page has of a model.

    Args:
        layers: of each attention, ``encoder``, ``decoder`` or ``cross``.
        words: of each attention the T queries and the S keys. A query of the cross-attention is the word that is
            predicted.
        series: (T, C) of a model of time series, whose words are steps, and blocks of steps where there are many.
        note: stands below the name, such as what the model predicts.
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
            series: (T, C) of a model of time series; more than MOST_WORDS steps are shown in blocks.

        Raises:
            UserError: where there is no map of a Transformer's attention.
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
        """What the page's script reads."""
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
        """Attention, stage, layer, head, query, its word, key, its word, value as shown: of each value, from 1."""
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
    """Raises UserError where a map has more words than a page holds."""
    longest = max(len(side) for sides in words.values() for side in sides)
    if longest > MOST_WORDS:
        raise UserError(f"a sentence has {longest} tokens, and a page shows {MOST_WORDS}: shorten it")


def attention_page(models: list[ModelMaps], title: str) -> str:
    """The page, of one model or of two that read the same words.

    Raises:
        UserError: where two models have no attention in common whose words are the same.
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
