"""Checkpoints as untrusted input: read as data, their options checked."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
