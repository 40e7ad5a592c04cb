"""Evolving attention that passes values on as well as logits: value residuals, or Depth-Attention, beneath its maps."""

from dataclasses import dataclass

from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.mechanisms.depth_attention import DepthAttention, DepthOptions
from ea_fairseq.mechanisms.evolving import DEFAULTS, EvolvingAttention
from ea_fairseq.mechanisms.value_residual import ValueResidualAttention


@register_mechanism("ea_value_residual", **DEFAULTS)
class EvolvingValueResidualAttention(ValueResidualAttention, EvolvingAttention):
    """Evolving attention whose values are mixed with those of the first layer."""

    options = EvolutionOptions
    title = "evolving attention with value residual"
    adds = "convolutions and pairs of weights"
    fused = EvolvingAttention.fused


@dataclass(frozen=True)
class EvolvingDepthOptions(EvolutionOptions, DepthOptions):
    """The flags of evolving attention and of Depth-Attention."""


@register_mechanism("ea_depth_attention", **DEFAULTS)
class EvolvingDepthAttention(DepthAttention, EvolvingAttention):
    """Evolving attention whose values in self-attentions attend to those of the layers below."""

    options = EvolvingDepthOptions
    title = "evolving Depth-Attention"
    adds = "convolutions"
    fused = EvolvingAttention.fused
    of_source = EvolvingAttention
