"""The attention maps of a trained model, for display and computation."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ea_fairseq.attention.maps import AttentionMaps, by_layer
from ea_fairseq.errors import UserError
from ea_fairseq.explorer.image_page import Picture, image_record, write_image_page
from ea_fairseq.explorer.page import ModelMaps, write_attention_page


class AttentionByName(dict[str, AttentionMaps]):
    """The maps of a model's attentions by their names, such as ``encoder.layers.0.self_attn``.

    Args:
        series: (T, C), the input of a model of time series.
        texts: the texts that the model read.
        model: the model's name.
        note: sentences that a page shows below the name, such as the prediction.
        unit: what attends: a ``word``, a ``step``, a ``node`` or a ``pixel``.
        picture: the image that a model of images read.
    """

    def __init__(
        self,
        maps: Mapping[str, AttentionMaps] = MappingProxyType({}),
        series: np.ndarray | None = None,
        texts: tuple[str, ...] = (),
        model: str = "model",
        note: str = "",
        unit: str = "word",
        picture: Picture | None = None,
    ):
        super().__init__(maps)
        self.series, self.texts, self.model, self.note, self.unit = series, texts, model, note, unit
        self.picture = picture

    def to_html(
        self, path: str | Path, title: str | None = None, name: str | None = None, **others: "AttentionByName"
    ) -> Path:
        """Writes a page to explore layers, heads and stages in a browser, without a network.

        Args:
            title: the page's title; by default, it names the models and the texts.
            name: the model's name, by default its architecture.
            others: the maps of one more model for the same words, by its name, shown next to these.

        Returns:
            The path.

        Raises:
            UserError: if the models read different words or images.
        """
        named = {name or self.model: self, **others}
        if self.picture is not None:
            pictures = {called: maps.picture or self.picture for called, maps in named.items()}
            if not all(np.array_equal(picture.pixels, self.picture.pixels) for picture in pictures.values()):
                raise UserError("these models read different images")
            records = [image_record(called, maps.note, maps, pictures[called]) for called, maps in named.items()]
            return write_image_page(path, records, self.picture, title or self.title(named))
        models = [ModelMaps.of(called, maps, maps.series, maps.note, self.unit) for called, maps in named.items()]
        return write_attention_page(path, models, title or self.title(named))

    def title(self, names: Iterable[str]) -> str:
        """Returns the title of a page of models with these names."""
        texts = " and ".join(f"“{text}”" for text in self.texts)
        where = "around" if self.unit == "node" else "while reading"
        return f"Attention of {' and '.join(names)}{texts and f' {where} {texts}'}"

    def bertviz(self) -> dict[str, list]:
        """Returns the probabilities in BertViz's format: ``bertviz.model_view(**maps.bertviz())``, and ``head_view``.

        Returns:
            BertViz's arguments by name: lists over layers of maps (1, K, T, S), and the words; only ``attention`` and
            ``tokens`` for an encoder.
        """
        layers = by_layer(self)
        maps = {kind: [one.probabilities.unsqueeze(0) for one in found] for kind, found in layers.items()}
        if set(maps) == {"encoder"}:
            return {"attention": maps["encoder"], "tokens": layers["encoder"][0].keys}
        words = {f"{kind}_tokens": layers[kind][0].queries for kind in ("encoder", "decoder") if kind in layers}
        return {f"{kind}_attention": found for kind, found in maps.items()} | words
