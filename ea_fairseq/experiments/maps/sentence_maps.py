"""Attention maps of one sentence or pair: figures, and an interactive page with a table of its numbers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ea_fairseq.attention.maps import AttentionMaps, by_layer
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.map_figures import Axes, Row, draw_maps
from ea_fairseq.experiments.maps.subwords import labels
from ea_fairseq.explorer.page import LayerMaps, ModelMaps, require_few, write_attention_page
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.plain.files import write_csv

STAGES = {
    "own": "own logits",
    "input": "after mixing",
    "logits": "after convolution",
    "probabilities": "probabilities",
}
LACKS = {"input": "no skip connection", "logits": "no convolution"}
TITLES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "encoder-decoder attention",
}
HEADER = ("model", "attention", "stage", "layer", "head", "query", "query word", "key", "key word", "value")


@dataclass(frozen=True)
class SentenceMaps:
    """The attention maps of one model for a sentence or pair.

    Args:
        name: of the model.
        layers: the maps of each layer, by attention: ``encoder``, ``decoder`` or ``cross``.
        subword: the kind of subwords, see :func:`subwords.word_numbers`.
    """

    name: str
    layers: dict[str, list[AttentionMaps]]
    subword: str

    @classmethod
    def of(cls, name: str, maps: AttentionByName, subword: str) -> "SentenceMaps":
        """Groups the maps that a model returns by the names of its attention modules."""
        return cls(name, by_layer(maps), subword)

    def axes(self, attention: str) -> Axes:
        """The axes: a query is the word predicted in cross-attention, and the word read in self-attention."""
        maps = self.layers[attention][0]
        queries, keys = labels(maps.queries, self.subword), labels(maps.keys, self.subword)
        if attention == "cross":
            return Axes([*queries[1:], "</s>"], keys, "target word predicted", "source word")
        source = "source word" if "decoder" in self.layers else "word"
        side = source if attention == "encoder" else "target word read"
        return Axes(queries, keys, side, side)

    def row(self, attention: str, stage: str, head: str, label: str) -> Row:
        """The row of the maps of a head, a number from 1, or of the ``mean`` over heads."""
        maps = [stage_of(maps, stage) for maps in self.layers[attention]]
        shown = [of_heads.mean(0) if head == "mean" else of_heads[int(head) - 1] for of_heads in maps]
        return Row(label, shown, diverging=stage != "probabilities")


def stage_of(maps: AttentionMaps, stage: str) -> np.ndarray:
    """The maps of a stage, (K, T, S), NaN where a query must not see a key."""
    return getattr(maps, stage).masked_fill(maps.own.isinf(), torch.nan).float().numpy()


def draw(
    models: list[SentenceMaps], attentions: tuple[str, ...], heads: list[str] | None, stages: tuple[str, ...], out: Path
) -> list[Path]:
    """Draws a figure for each attention and head, by default all heads and their mean; returns the files.

    Raises:
        UserError: naming a missing attention or head, before anything is drawn.
    """
    chosen = [(attention, head) for attention in attentions for head in choose_heads(models, attention, heads)]
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for attention, head in chosen:
        title, rows = rows_of(models, attention, head, stages, TITLES[attention])
        paths += draw_maps(title, rows, models[0].axes(attention), out / file_name(attention, head))
    return paths


def file_name(subject: str, head: str) -> str:
    """The file name, without suffix, of the figure of a head or of the mean over heads."""
    return f"{subject}-{'mean' if head == 'mean' else f'head-{head}'}"


def rows_of(
    models: list[SentenceMaps], attention: str, head: str, stages: tuple[str, ...], subject: str
) -> tuple[str, list[Row]]:
    """The title and the rows of a figure of one model, or of several models below each other."""
    title = f"{subject}, {'mean over heads' if head == 'mean' else f'head {head}'}"
    if len(models) == 1:
        return f"{models[0].name}: {title}", evolution(models[0], attention, head, stages)
    rows = [model.row(attention, stage, head, f"{model.name}: {stage}") for stage in stages for model in models]
    return title, rows


def choose_heads(models: list[SentenceMaps], attention: str, heads: list[str] | None) -> list[str]:
    """The heads to draw; raises UserError if a model lacks the attention or one of the heads."""
    for model in models:
        if attention not in model.layers:
            raise UserError(f"{model.name} has no {TITLES[attention]}: choose others with --attention.")
    count = min(len(maps.own) for model in models for maps in model.layers[attention])
    if heads is None:
        return [*map(str, range(1, count + 1)), "mean"]
    for head in heads:
        if head != "mean" and int(head) > count:
            raise UserError(f"--heads: there is no head {head} in the {TITLES[attention]}: it has {count}.")
    return heads


def evolution(model: SentenceMaps, attention: str, head: str, stages: tuple[str, ...]) -> list[Row]:
    """The rows of a model's stages; a stage that equals the one before it shares its row."""
    rows: list[Row] = []
    for stage in stages:
        row = model.row(attention, stage, head, STAGES[stage])
        if rows and same(row, rows[-1]):
            row = Row(f"{rows.pop().label}, {LACKS[stage]}", row.maps, row.diverging)
        rows.append(row)
    return rows


def same(row: Row, other: Row) -> bool:
    """Whether two rows have the same maps, NaN at the same entries."""
    return all(map(lambda x, y: np.array_equal(x, y, equal_nan=True), row.maps, other.maps))


def write_explorer(models: list[ModelMaps], title: str, page: Path) -> list[Path]:
    """Writes the page and, next to it, its table (page.csv for page.html), each whole or not at all; returns both.

    Raises:
        UserError: if two models have no attention in common.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    paths = [write_attention_page(page, models, title)]
    table = page.with_suffix(".csv")
    write_csv(table, [HEADER, *((model.name, *row) for model in models for row in model.rows())])
    return [*paths, table]


def model_maps(model: SentenceMaps) -> ModelMaps:
    """The page's data of a model, with words as figures show them."""
    axes = {kind: model.axes(kind) for kind in model.layers}
    words = {kind: (found.queries, found.keys) for kind, found in axes.items()}
    require_few(words)
    return ModelMaps(model.name, {kind: list(map(LayerMaps.of, maps)) for kind, maps in model.layers.items()}, words)
