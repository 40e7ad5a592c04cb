"""The mechanisms there are, each with a family of models: whoever has to know them all reads them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ea_fairseq.attention.attention import Attention

PLAIN = {"base": "transformer", "lite": "transformer_lite"}  # fairseq's own architectures, the baselines, by size
ENDINGS = {"": "base", "_base": "base", "_lite": "lite"}  # sizes by the end of an architecture's name
LAYOUTS = ("roberta", "bert")  # of models that are an encoder alone
ENCODER_SIZES = ("tiny", "mini", "small", "base", "large")


@dataclass(frozen=True)
class Family:
    """A mechanism's models.

    Args:
        name: of the fairseq model; its architectures are ``name``, ``name_base`` and ``name_lite``.
        attention: what their layers are built of.
        defaults: of the mechanism's options, by size, where they differ from those of the dataclass; those of
            ``encoder`` are for models that are an encoder alone, else these have those of ``base``, and those of
            ``time_series`` for models of time series, else these have those of encoders.
    """

    name: str
    attention: type[Attention]
    defaults: Mapping[str, Mapping[str, object]]

    @property
    def archs(self) -> dict[str, str]:
        """The sizes ``base`` and ``lite`` by the names of the architectures."""
        return {self.name + ending: size for ending, size in ENDINGS.items()}

    def encoder(self, layout: str) -> str:
        """The name of the fairseq model that is an encoder of a layout: ``ea_transformer`` -> ``ea_roberta``."""
        return f"{self.name.removesuffix('_transformer')}_{layout}"

    def encoder_archs(self, layout: str) -> dict[str, str]:
        """Sizes of encoders of a layout by the names of the architectures."""
        name = self.encoder(layout)
        return {name: "base", **{f"{name}_{size}": size for size in ENCODER_SIZES}}

    @property
    def encoder_defaults(self) -> Mapping[str, object]:
        """Those of models that are an encoder alone."""
        return self.defaults.get("encoder", self.defaults.get("base", {}))

    @property
    def time_series(self) -> str:
        """The name of the fairseq model of time series: ``ea_transformer`` -> ``ea_dc_transformer``."""
        return f"{self.name.removesuffix('_transformer')}_dc_transformer"

    @property
    def time_series_defaults(self) -> Mapping[str, object]:
        """Those of models of time series."""
        return self.defaults.get("time_series", self.encoder_defaults)


FAMILIES: dict[str, Family] = {}  # by name
CLASSIFIERS: dict[str, Family] = {}  # of those that classify sentences, by name
makers: dict[str, Callable[[Family], None]] = {}  # what makes models of either kind, once ``models`` are imported


def register_mechanism(name: str, **defaults: Mapping[str, object]) -> Callable[[type[Attention]], type[Attention]]:
    """Registers an attention, and with fairseq a Transformer of it: model ``name``, ``name_base`` and ``name_lite``.

    Encoders and models of time series of the mechanism come with it.

    Args:
        defaults: of the mechanism's options, by size: ``base``, ``lite`` and, where they are not those of ``base``,
            ``encoder`` and ``time_series``; with those of ``classifier``, there is a classifier of sentences, too.
    """

    def register(attention: type[Attention]) -> type[Attention]:
        FAMILIES[name] = Family(name, attention, defaults)
        if "mechanism" in makers:
            makers["mechanism"](FAMILIES[name])
        if "classifier" in defaults:
            register_classifier(name, **defaults["classifier"])(attention)
        return attention

    return register


def register_classifier(name: str, **defaults: object) -> Callable[[type[Attention]], type[Attention]]:
    """Registers with fairseq the classifier ``NAME_classifier`` of sentences, with an attention.

    Args:
        defaults: of options, where they are not those of ``models/classifier.py``.
    """

    def register(attention: type[Attention]) -> type[Attention]:
        CLASSIFIERS[name] = Family(name, attention, {"classifier": defaults})
        if "classifier" in makers:
            makers["classifier"](CLASSIFIERS[name])
        return attention

    return register


def family_of(arch: str) -> Family | None:
    """The family of an architecture, or None where it is none of ours."""
    return next((family for family in FAMILIES.values() if arch in family.archs), None)


def baseline_of(arch: str) -> str | None:
    """The architecture of fairseq's Transformer of the same size, or None where ``arch`` is none of ours."""
    family = family_of(arch)
    return None if family is None else PLAIN[family.archs[arch]]
