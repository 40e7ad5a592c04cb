"""Optimizers for ``--optimizer`` that fairseq does not have."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
from ea_fairseq.optim import muon, torch_optimizers  # noqa: F401
