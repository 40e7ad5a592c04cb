"""A row for each attention mechanism: what the tests that hold for all of them need to know of it."""

from dataclasses import dataclass, field

import oracles_content  # noqa: F401  the terms' loops
import oracles_positions  # noqa: F401
from loops import Evolving, Oracle
from oracles_branches import Convolution, LongShortRange, PredictiveBesideConvolution
from oracles_mixing import MultiToken, Predictive, TalkingHeads, ValueResidual
from oracles_rivals import (
    Both,
    Composable,
    Depth,
    Differential,
    EvolvingExclusive,
    EvolvingGated,
    Exclusive,
    Gated,
    Lime,
    Moda,
    Sinking,
)
from tiny import SKIPS, TINY, build, make_loud

KINDS = ("encoder", "decoder", "cross")
MTA_2 = {"mta_mix_logits": True, "mta_second_conv": True, "no_mta_depth_scale": True, "mta_gate": True}  # version 2


@dataclass(frozen=True)
class Row:
    """How a family of models is tested.

    Args:
        oracle: what the mechanism computes, see loops.py.
        options: of the models that are tested, by which the mechanism is on in all three attentions.
    """

    oracle: Oracle
    options: dict[str, object] = field(default_factory=dict)


class RealFormer(Oracle):
    """Own logits added to those of the layer below."""

    def logits(self, attention, kind, own, previous, masked):
        return own if previous is None else own + previous


WEIGHTS = dict.fromkeys(KINDS, 0.4), dict.fromkeys(KINDS, 0.3)  # alpha and beta
EVOLVING = Evolving(*WEIGHTS)
EVOLUTION = {"ea_alpha": 0.4, "ea_beta": 0.3, **SKIPS}
ROWS = {
    "ea_transformer": Row(EVOLVING, EVOLUTION),
    "realformer": Row(RealFormer()),
    "pa_transformer": Row(Predictive(0.4), {"pa_layers": 2, "pa_alpha": 0.4}),
    "conv_transformer": Row(Convolution()),
    "pa_conv_transformer": Row(PredictiveBesideConvolution(0.4), {"pa_alpha": 0.4}),
    "lite_transformer": Row(LongShortRange(), {"weight_dropout": 0.0}),
    "value_residual": Row(ValueResidual()),
    "talking_heads": Row(TalkingHeads()),
    "synthesizer": Row(Oracle()),
    "composite_transformer": Row(Oracle()),
    "quadratic_transformer": Row(Oracle()),
    "composable_attention": Row(Composable(), {"compose_by_key": True}),
    "diff_transformer": Row(Differential()),
    "depth_attention": Row(Depth()),
    "lime": Row(Lime()),
    "moda": Row(Moda()),
    "ea_value_residual": Row(Both(EVOLVING, ValueResidual()), EVOLUTION),
    "ea_depth_attention": Row(Both(EVOLVING, Depth()), EVOLUTION),
    "gated_attention": Row(Gated()),
    "exclusive_attention": Row(Exclusive()),
    "ea_gated_attention": Row(EvolvingGated(*WEIGHTS), EVOLUTION),
    "ea_exclusive_attention": Row(EvolvingExclusive(*WEIGHTS), EVOLUTION),
    "sink_attention": Row(Sinking()),
    "mta_transformer": Row(MultiToken(), {"mta_every": 1, "mta_query_kernel": 3, "mta_key_kernel": 5, **MTA_2}),
}


def build_family(family: str, **options):
    """A tiny model of a family, its mechanism loud enough for a wrong number to show."""
    return make_loud(build(family, **{**TINY, **ROWS[family].options, **options}))
