"""The one attention that all mechanisms are built on, and what it reads."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
