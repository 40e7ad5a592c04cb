"""What models of time series cost: counted, and a second time by torch."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from ea_fairseq.analysis.cost import count_series_macs, series_pass
from ea_fairseq.analysis.parts import parts
from ea_fairseq.kernels import dispatch
from model_checks import UNSEEN, by_our_forward
from time_series import BASELINES, MECHANISMS, TINY, build, draw

CASES = {
    **{arch: {**TINY, **MECHANISMS.get(arch, {})} for arch in ("dc_transformer", *MECHANISMS)},
    "time_series_transformer": {**TINY, "attention_share": 1.0},
    "dilated_cnn": {**TINY, "attention_share": 0.0},
    **{arch: {"width": 16, "blocks": 2} for arch in BASELINES},
}


@pytest.mark.parametrize("arch", CASES)
def test_torchs_own_counter_of_flops_agrees(arch, monkeypatch):
    """In float64, in which recurrent layers are linear ones to it."""
    monkeypatch.setattr(dispatch, "backend", "reference")
    model = by_our_forward(build(arch, **CASES[arch]))
    macs = count_series_macs(model)
    assert "others" not in {part.name for part in parts(model, macs)}
    with FlopCounterMode(display=False) as counter:
        series_pass(model.double())(draw(1)[0][:1].double())
    assert counter.get_total_flops() == 2 * sum(number for name, number in macs.items() if not UNSEEN.search(name))
