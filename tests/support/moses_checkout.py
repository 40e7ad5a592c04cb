"""A checkout of Moses, for the tests that compare with its scripts: EA_FAIRSEQ_MOSES names its folder."""

import os

import pytest

MOSES = os.environ.get("EA_FAIRSEQ_MOSES")
needs_moses = pytest.mark.skipif(
    not MOSES, reason="needs perl and Moses: set EA_FAIRSEQ_MOSES to a checkout of github.com/moses-smt/mosesdecoder"
)
