"""A page on which attention maps are explored: layers, heads, stages, two models beside each other."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
