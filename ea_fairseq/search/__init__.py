"""Beam search in native code, the options that it adds to fairseq's commands, and vocabulary shortlists."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
