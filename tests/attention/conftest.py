"""Fixtures of the tests of attention."""

import pytest

from ea_fairseq.attention.convolutions import DepthwiseConvolution
from ea_fairseq.terms.lightweight_convolution import Kernel
from ea_fairseq.terms.shaw import ShawPositions
from ea_fairseq.terms.t5 import T5Positions


@pytest.fixture
def short_reach(monkeypatch):
    """Terms and convolutions that reach so little that the laws' short sentences go beyond it."""
    for kind in (Kernel, ShawPositions, DepthwiseConvolution):
        monkeypatch.setattr(kind, "REACH", 2)
    monkeypatch.setattr(T5Positions, "BUCKETS", 8)
    monkeypatch.setattr(T5Positions, "FARTHEST", 5)
