"""Where Cora and Citeseer are, for the tests that read them."""

import os
from pathlib import Path

import pytest

from commands import ROOT

GRAPHS = Path(os.environ.get("EA_FAIRSEQ_GRAPHS") or ROOT.parent / "shared/data/graphs")
needs_graphs = pytest.mark.skipif(
    not (GRAPHS / "cora/nodes.tsv").is_file(), reason="set EA_FAIRSEQ_GRAPHS to a folder that has cora/nodes.tsv"
)
