"""The page on which maps are explored, and a table of the same name, which has the same numbers."""

import csv
from pathlib import Path

from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps
from ea_fairseq.explorer.page import LayerMaps, ModelMaps, require_few, write_attention_page
from ea_fairseq.plain.whole_files import replacing

HEADER = ("model", "attention", "stage", "layer", "head", "query", "query word", "key", "key word", "value")


def write_explorer(models: list[ModelMaps], title: str, page: Path) -> list[Path]:
    """Writes the page and, beside it, the table: page.csv for page.html; each whole or not at all; returns both.

    Raises:
        UserError: where two models have no attention in common.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    paths = [write_attention_page(page, models, title)]
    table = page.with_suffix(".csv")
    with replacing(table) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for model in models:
            writer.writerows((model.name, *row) for row in model.rows())
    return [*paths, table]


def model_maps(model: SentenceMaps) -> ModelMaps:
    """What the page has of a model, its words as figures show them."""
    axes = {kind: model.axes(kind) for kind in model.layers}
    words = {kind: (found.queries, found.keys) for kind, found in axes.items()}
    require_few(words)
    return ModelMaps(model.name, {kind: list(map(LayerMaps.of, maps)) for kind, maps in model.layers.items()}, words)
