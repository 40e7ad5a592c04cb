"""The registry of mechanisms, each with its family of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ea_fairseq.attention.attention import Attention

MODERN = "modern_transformer"  # the plain model with layers like those of language models of 2026
# The baselines by size: architectures of fairseq's own Transformer, and of the modern one.
PLAIN = {
    "base": "transformer",
    "lite": "transformer_lite",
    "modern_base": MODERN,
    "modern_lite": f"{MODERN}_lite",
}
ENDINGS = {"": "base", "_base": "base", "_lite": "lite"}  # sizes by the end of an architecture's name
LAYOUTS = ("roberta", "bert")  # of encoder-only models
ENCODER_SIZES = ("tiny", "mini", "small", "base", "large")


@dataclass(frozen=True)
class Family:
    """A mechanism's models.

    Args:
        name: of the fairseq model; its architectures are ``name``, ``name_base`` and ``name_lite``, and those with
            modern layers, such as ``ea_modern_transformer_lite``.
        attention: the class of their attentions.
        defaults: of the mechanism's options, by size, if they differ from the dataclass's. Encoder-only models use
            ``encoder`` or else ``base``, models of time series use ``time_series`` or else the encoders' defaults,
            models of graphs use ``graph``, models of images use ``vit``, ``aa_resnet``, ``conv_image`` or
            ``conv_transformer_image`` or else the encoders' defaults.
    """

    name: str
    attention: type[Attention]
    defaults: Mapping[str, Mapping[str, object]]

    @property
    def archs(self) -> dict[str, str]:
        """The sizes, as in ``PLAIN``, by the names of the architectures."""
        old = {self.name + ending: size for ending, size in ENDINGS.items()}
        return old | {self.model(MODERN) + ending: f"modern_{size}" for ending, size in ENDINGS.items()}

    def encoder(self, layout: str) -> str:
        """Returns the name of the encoder-only fairseq model of a layout: ``ea_transformer`` -> ``ea_roberta``."""
        return self.model(layout)

    def encoder_archs(self, layout: str) -> dict[str, str]:
        """Returns the sizes of encoders of a layout, by the names of the architectures."""
        name = self.encoder(layout)
        return {name: "base", **{f"{name}_{size}": size for size in ENCODER_SIZES}}

    @property
    def encoder_defaults(self) -> Mapping[str, object]:
        """The defaults of encoder-only models."""
        return self.defaults.get("encoder", self.defaults.get("base", {}))

    def model(self, base: str) -> str:
        """Returns the name of another fairseq model: ``dc_transformer``, say -> ``ea_dc_transformer``."""
        return f"{self.name.removesuffix('_transformer')}_{base}"

    @property
    def time_series_defaults(self) -> Mapping[str, object]:
        """The defaults of models of time series."""
        return self.defaults.get("time_series", self.encoder_defaults)

    def image_defaults(self, base: str) -> Mapping[str, object]:
        """Returns the defaults of models of images: of ``vit``, say."""
        return self.defaults.get(base, self.encoder_defaults)

    @property
    def graph_defaults(self) -> Mapping[str, Any]:
        """The defaults of models of graphs."""
        return self.defaults.get("graph", {})


FAMILIES: dict[str, Family] = {}  #: All families by name, also ``ea_fairseq.FAMILIES``.
CLASSIFIERS: dict[str, Family] = {}  # families with a sentence classifier, by name
makers: dict[str, Callable[[Family], None]] = {}  # functions that register models, once ``models`` is imported


def register_mechanism(name: str, **defaults: Mapping[str, object]) -> Callable[[type[Attention]], type[Attention]]:
    """Registers an attention and, with fairseq, its Transformers ``name``, ``name_base`` and ``name_lite``.

    Also registers encoders, T5s and models of time series, graphs and images with the mechanism.

    Args:
        defaults: of the mechanism's options, by size: ``base``, ``lite`` and, if they differ from ``base``,
            ``encoder``, ``time_series`` and ``graph``. ``classifier`` also registers a classifier of sentences.
    """

    def register(attention: type[Attention]) -> type[Attention]:
        FAMILIES[name] = Family(name, attention, defaults)
        for make in (makers[kind] for kind in ("mechanism", "t5") if kind in makers):
            make(FAMILIES[name])
        if "classifier" in defaults:
            register_classifier(name, **defaults["classifier"])(attention)
        return attention

    return register


def register_classifier(name: str, **defaults: object) -> Callable[[type[Attention]], type[Attention]]:
    """Registers with fairseq the classifier ``NAME_classifier`` of sentences, with this attention.

    Args:
        defaults: of options, if they differ from ``models/encoder_options.py``.
    """

    def register(attention: type[Attention]) -> type[Attention]:
        CLASSIFIERS[name] = Family(name, attention, {"classifier": defaults})
        if "classifier" in makers:
            makers["classifier"](CLASSIFIERS[name])
        return attention

    return register


def family_of(arch: str) -> Family | None:
    """Returns the family of an architecture, or None if it is not ours."""
    return next((family for family in FAMILIES.values() if arch in family.archs), None)


def baseline_of(arch: str) -> str | None:
    """Returns the architecture of fairseq's Transformer of the same size, or None if ``arch`` is not ours."""
    family = family_of(arch)
    return None if family is None else PLAIN[family.archs[arch]]
