"""Predictive attention, value residuals, talking heads and multi-token attention with all their settings."""

from dataclasses import dataclass

import pytest
import torch

from ea_fairseq.models.state_dict import MECHANISM
from laws import LAWS
from loops import Oracle
from mechanisms import MTA_2
from model_checks import assert_equals_loops, assert_every_parameter_learns, assert_loss_changes_along_its_gradient
from oracles_mixing import MultiToken, Predictive, TalkingHeads, ValueResidual
from tiny import TINY, build, make_loud


@dataclass(frozen=True)
class Setting:
    """A family with options, and what it computes with them."""

    family: str
    options: dict[str, object]
    oracle: Oracle

    def build(self, **options):
        model = make_loud(build(self.family, **{**TINY, "encoder_layers": 3, **self.options, **options}))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if MECHANISM.search(name) and "conv" not in name:
                    parameter += 0.5 * torch.randn(parameter.shape)
        return model


FOUR_HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
NO_MTA_1 = {"mta_head_kernel": 1, "no_mta_norm": True}  # neither mixed probabilities nor norms
SETTINGS = {
    **{
        f"PA of {layers} layers": Setting("pa_transformer", {"pa_layers": layers, "pa_alpha": 0.3}, Predictive(0.3))
        for layers in range(4)
    },
    "PA alone": Setting("pa_transformer", {"pa_alpha": 1.0}, Predictive(1.0)),
    "PA of Shaw": Setting("pa_transformer", {"relative_positions": "shaw"}, Predictive(0.1)),
    "value residual": Setting("value_residual", {"decoder_layers": 3}, ValueResidual()),
    "talking heads": Setting("talking_heads", {"decoder_attention_heads": 4}, TalkingHeads()),
    "talking heads of Shaw": Setting("talking_heads", {"relative_positions": "shaw"}, TalkingHeads()),
    "MTA in every layer": Setting("mta_transformer", {"mta_every": 1}, MultiToken()),
    "MTA in one layer": Setting("mta_transformer", {"mta_query_kernel": 4, "mta_key_kernel": 3}, MultiToken()),
    "MTA of four heads": Setting(
        "mta_transformer",
        {"mta_every": 2, "mta_query_kernel": 3, **FOUR_HEADS},
        MultiToken(),
    ),
    "MTA of keys": Setting(
        "mta_transformer",
        {"mta_every": 1, "mta_query_kernel": 1, "mta_key_kernel": 5, "mta_head_kernel": 1},
        MultiToken(),
    ),
    "MTA of queries": Setting(
        "mta_transformer",
        {"mta_every": 1, "mta_query_kernel": 5, "mta_key_kernel": 1, "no_mta_norm": True},
        MultiToken(),
    ),
    "MTA of Shaw": Setting("mta_transformer", {"mta_every": 2, "relative_positions": "shaw"}, MultiToken()),
    "MTA 2": Setting("mta_transformer", {"mta_every": 1, **MTA_2}, MultiToken()),
    "MTA 2 of four heads": Setting(
        "mta_transformer",
        {"mta_every": 2, "mta_query_kernel": 4, "mta_key_kernel": 3, "mta_head_kernel": 4, **MTA_2, **FOUR_HEADS},
        MultiToken(),
    ),
    "MTA of two convolutions and gates": Setting(
        "mta_transformer",
        {"mta_every": 1, "mta_key_kernel": 5, "mta_second_conv": True, "mta_gate": True, **NO_MTA_1},
        MultiToken(),
    ),
    "MTA of mixed logits": Setting(
        "mta_transformer", {"mta_every": 9, "mta_mix_logits": True, **NO_MTA_1}, MultiToken()
    ),
    "value residual of Shaw": Setting("value_residual", {"relative_positions": "shaw"}, ValueResidual()),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


@each_setting
def test_a_model_equals_loops(setting):
    assert_equals_loops(setting.build(), setting.oracle)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@each_setting
def test_law_holds(setting, law):
    law(setting.build(), seed=6)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "PA alone"])
def test_every_parameter_learns(name):
    """But for predictive attention alone, where layers above the first read no logits of their own."""
    assert_every_parameter_learns(SETTINGS[name].build())


@each_setting
@pytest.mark.parametrize("of", ["", "layers.0.self_attn.v_proj", "decoder.layers.0.encoder_attn.v_proj"])
def test_the_loss_changes_along_its_gradient(setting, of):
    """Of all parameters, and of those that layers above may read again."""
    assert_loss_changes_along_its_gradient(setting.build(), of)


@pytest.mark.parametrize("setting", [SETTINGS["value residual"], SETTINGS["value residual of Shaw"]])
def test_where_the_first_layer_is_dropped_the_next_one_gives_the_values(setting):
    """The loops are then of the layers that are left, as --encoder-layerdrop and --decoder-layerdrop leave them."""
    model = setting.build()
    for side in (model.encoder, model.decoder):
        side.layers = side.layers[1:]
    assert_equals_loops(model, setting.oracle)
