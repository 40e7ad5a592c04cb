"""What the benchmark measures: cases, such as training at one length, and variants, such as half precision."""

from dataclasses import dataclass, replace
from pathlib import Path

SIZES = ("lite", "base")
PARTS = ("block", "training", "generation", "growth")
ENCODER_SIZES = ("tiny", "mini", "small", "base", "large")
ENCODER_PARTS = ("tuning", "inference")
TRAINED_PARTS = ("translation",)
SERIES_PARTS = ("series",)
LARGE = ("base", "large")
TRAINING_LENGTHS = {"lite": (30, 64), "base": (30,)}
LENGTHS = {
    "block": (30, 64, 100),
    "generation": (30,),
    "growth": (16, 32, 64, 128, 256, 512, 1024),
    **dict.fromkeys(ENCODER_PARTS, (30, 128)),
    "series": (152, 315),  # Handwriting's and UWaveGestureLibrary's
}
QUICK_LENGTHS = {"generation": (10,), "growth": (32, 128, 512)}  # other parts use the first of LENGTHS
TOKENS = 4100  # per batch, padding included
FEWER_TOKENS = 1024  # in a training step of the base model on a CPU, and in a quick run
SEARCHES = ((5, 128), (1, 128), (5, 1))  # beam, sentences per batch
EVOLVING_FAMILY = "ea_transformer"
STOCK_CRITERION, CHUNKED_CRITERION = "label_smoothed_cross_entropy", "ea_label_smoothed_cross_entropy"


@dataclass(frozen=True)
class Case:
    """One workload, the same for all variants.

    Args:
        part: one of PARTS (block and growth measure one self-attention, forward and backward), of ENCODER_PARTS (a
            RoBERTa classifier), of TRAINED_PARTS (trained models) or of SERIES_PARTS (classifiers of time series).
        size: one of SIZES or ENCODER_SIZES; empty for trained models and series.
        length: N, tokens of the longest sentence on either side; 0 for a text.
        sentences: B.
        beam: width of the beam, or 0 if the case is not a search.
        text: the file that trained models translate.
    """

    part: str
    size: str
    length: int
    sentences: int
    beam: int = 0
    text: str = ""

    @property
    def title(self) -> str:
        """The name of the case in tables: size, length in tokens, and batch size in sentences or kind of search."""
        search = f"{f'beam {self.beam}' if self.beam > 1 else 'greedy'}, batch {self.sentences}"
        if self.text:
            return f"{Path(self.text).name}, {search}"
        name = ", ".join(filter(None, (self.size.capitalize(), f"N = {self.length}")))
        return f"{name}, {search if self.beam else f'B = {self.sentences}'}"


@dataclass(frozen=True)
class Variant:
    """A model and how it is run.

    Args:
        evolving: whether it is our family, not fairseq's Transformer or the family in plain PyTorch.
        backend: EA_BACKEND.
        bf16: whether torch.autocast uses bfloat16; if the criterion has ``--autocast``, with ``--fast-dropout``, too.
        criterion: used in training.
        tuned: whether the allocator settings of plain/memory.py are used.
        family: its name in ea_fairseq.attention.registry.
        model: the folder of a trained model.
        peer: CTranslate2's compute type if that engine runs the model, else empty.
        precision: that native search uses to multiply by weights, unless float32 is faster.
    """

    name: str
    evolving: bool = True
    backend: str = "auto"
    bf16: bool = False
    criterion: str = STOCK_CRITERION
    tuned: bool = True
    family: str = EVOLVING_FAMILY
    model: str = ""
    peer: str = ""
    precision: str = ""

    def of_family(self, family: str) -> "Variant":
        """Returns this variant for another family, whose name replaces ``EA``."""
        return self if family == self.family else replace(self, name=self.name.replace("EA", family), family=family)


PLAIN = Variant("Transformer", evolving=False)
EVOLVING = Variant("EA")
REFERENCE = Variant("EA, reference", backend="reference")
PLAIN_BF16 = Variant("Transformer, bf16", evolving=False, bf16=True)
EVOLVING_BF16 = Variant("EA, bf16", bf16=True)
UNTUNED = Variant("Transformer, untuned", evolving=False, tuned=False)
PLAIN_ALL = Variant("Transformer, all on", evolving=False, bf16=True, criterion=CHUNKED_CRITERION)
EVOLVING_ALL = Variant("EA, all on", bf16=True, criterion=CHUNKED_CRITERION)
NATIVE = {
    "native_bf16": Variant("EA, native bf16", precision="bfloat16"),
    "native_int8": Variant("EA, native int8", precision="int8"),
}
PEERS = (
    Variant("CTranslate2", evolving=False, peer="float32"),
    Variant("CTranslate2, int8", evolving=False, peer="int8"),
)

PLAIN_SERIES = Variant("EA in plain PyTorch", evolving=False)
WITHOUT_EVOLUTION = Variant("DC-Transformer", family="dc_transformer")

FEW = (PLAIN, EVOLVING, REFERENCE)
VARIANTS = {
    "block": (*FEW, PLAIN_BF16, EVOLVING_BF16),
    "training": (*FEW, PLAIN_BF16, EVOLVING_BF16, UNTUNED, PLAIN_ALL, EVOLVING_ALL),
    "generation": FEW,
    "growth": FEW,
    "tuning": (*FEW, PLAIN_BF16, EVOLVING_BF16),
    "inference": (*FEW, PLAIN_BF16, EVOLVING_BF16),
    "translation": (PLAIN, EVOLVING),
    "series": (PLAIN_SERIES, EVOLVING, REFERENCE, WITHOUT_EVOLUTION),
}
QUICK_VARIANTS = {**VARIANTS, **dict.fromkeys(("block", "tuning"), FEW), "training": (*FEW, UNTUNED, EVOLVING_ALL)}


@dataclass(frozen=True)
class Settings:
    """The settings that all workloads share.

    Args:
        device: ``cpu`` or ``cuda``.
        dictionary: number of tokens in the dictionary.
        seconds: minimum duration of a sample.
        rounds: that count, per case.
        attempts: maximum number of rounds taken for each one that counts.
        limit: share of the processor above which other processes count as disturbing a sample.
    """

    device: str = "cpu"
    threads: int = 1
    dictionary: int = 10_000
    seed: int = 1
    seconds: float = 1.0
    rounds: int = 7
    attempts: int = 3
    limit: float = 0.06


@dataclass(frozen=True)
class Plan:
    """The cases and variants of each part.

    Args:
        tokens: per batch, or None for a number that suits the device; generation has its own batch sizes.
        lengths: None for each part's own.
        quick: whether to measure few cases and variants.
        families: compared with fairseq's Transformer; several families are measured by default settings only.
        peers: whether CTranslate2 is measured, too.
        native: options of further precisions for native search.
        models: folders of a trained plain and a trained evolving model, for TRAINED_PARTS.
        text: the file that they translate.
    """

    sizes: tuple[str, ...] = SIZES
    lengths: tuple[int, ...] | None = None
    tokens: int | None = None
    cuda: bool = False
    quick: bool = False
    families: tuple[str, ...] = (EVOLVING_FAMILY,)
    peers: bool = False
    native: tuple[str, ...] = ()
    models: tuple[str, ...] = ("", "")
    text: str = ""

    def variants(self, part: str) -> tuple[Variant, ...]:
        """Returns the variants that are sampled in turn, the baseline first."""
        variants = (QUICK_VARIANTS if self.quick else VARIANTS)[part]
        if part in SERIES_PARTS:
            return variants
        searches = part in ("generation", *TRAINED_PARTS)
        if len(self.families) > 1:
            variants = PLAIN, *map(EVOLVING.of_family, self.families)
        else:
            variants += tuple(NATIVE[name] for name in self.native if searches)
            variants = tuple(variant.of_family(*self.families) for variant in variants)
        variants += PEERS * (self.peers and searches)
        if part in TRAINED_PARTS:
            variants = tuple(replace(variant, model=self.models[variant.evolving]) for variant in variants)
        return variants

    def cases(self, part: str) -> list[Case]:
        """Returns the cases of a part, with sizes and lengths in the order of the tables."""
        if part in TRAINED_PARTS:
            searches = SEARCHES[:1] if self.quick else SEARCHES
            return [Case(part, "", 0, batch, beam, self.text) for beam, batch in searches]
        if part in SERIES_PARTS:
            return self._of(part, "")
        one_is_enough = self.quick and part != "block" and "lite" in self.sizes
        return [case for size in (("lite",) if one_is_enough else self.sizes) for case in self._of(part, size)]

    def _of(self, part: str, size: str) -> list[Case]:
        lengths = self.lengths or self._lengths(part, size)
        if part == "generation":
            searches = SEARCHES[:1] if self.quick or size == "base" else SEARCHES
            return [Case(part, size, length, batch, beam) for length in lengths for beam, batch in searches]
        is_costly = part in ("training", *ENCODER_PARTS, *SERIES_PARTS)
        fewer = is_costly and (self.quick or (size in LARGE and not self.cuda))
        tokens = self.tokens or (FEWER_TOKENS if fewer else TOKENS)
        return [Case(part, size, length, max(1, round(tokens / length))) for length in lengths]

    def _lengths(self, part: str, size: str) -> tuple[int, ...]:
        lengths = TRAINING_LENGTHS[size] if part == "training" else LENGTHS[part]
        return QUICK_LENGTHS.get(part, lengths[:1]) if self.quick else lengths
