"""Evolving attention whose heads' outputs are gated, or lose the direction of the word's own value."""

from dataclasses import dataclass

from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.mechanisms.evolving import DEFAULTS, EvolvingAttention
from ea_fairseq.mechanisms.exclusive import ExclusiveAttention
from ea_fairseq.mechanisms.gated import GatedAttention, GateOptions


@register_mechanism("ea_exclusive_attention", **DEFAULTS)
class EvolvingExclusiveAttention(ExclusiveAttention, EvolvingAttention):
    """Evolving attention whose outputs in self-attentions have no component along the word's own value."""

    options = EvolutionOptions
    title = "exclusive evolving attention"
    adds = "convolutions"
    fused = EvolvingAttention.fused
    of_source = EvolvingAttention


@dataclass(frozen=True)
class EvolvingGateOptions(EvolutionOptions, GateOptions):
    """The flags of evolving attention and of gated attention."""


@register_mechanism("ea_gated_attention", **DEFAULTS)
class EvolvingGatedAttention(GatedAttention, EvolvingAttention):
    """Evolving attention whose heads are weighted by gates of the query's word before they are projected."""

    options = EvolvingGateOptions
    title = "gated evolving attention"
    adds = "convolutions and gates"
    fused = EvolvingAttention.fused
