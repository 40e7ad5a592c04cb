"""Branches that compute a part of a layer's channels, in parallel to its self-attention."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
