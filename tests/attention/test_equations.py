"""The stacks equal plain loops over the equations, in float64."""

import pytest

from loops import Evolving
from mechanisms import KINDS
from model_checks import assert_equals_loops
from tiny import build_loud

SWITCHES = [{}, {"no_encoder_skip": True}, {"decoder_skip": True}, {"cross_skip": True}]


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda switches: "".join(switches) or "defaults")
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_stacks_equal_loops(kernel, switches):
    skips = {"encoder_skip": "no_encoder_skip" not in switches, **switches}
    alphas = {kind: 0.4 if skips.get(f"{kind}_skip") else 0.0 for kind in KINDS}
    model = build_loud(ea_kernel_size=kernel, ea_alpha=0.4, ea_beta=0.3, **switches)
    assert_equals_loops(model, Evolving(alphas, dict.fromkeys(KINDS, 0.3)))


def test_switched_off_convolution_and_skip_equal_loops():
    model = build_loud(ea_alpha=0.4, no_encoder_conv=True, no_decoder_conv=True, decoder_skip=True)
    alphas, betas = {"encoder": 0.4, "decoder": 0.4, "cross": 0.0}, {"encoder": 0.0, "decoder": 0.0, "cross": 0.5}
    assert_equals_loops(model, Evolving(alphas, betas))
