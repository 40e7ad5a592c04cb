"""Subword models that fairseq does not have: ``--bpe NAME`` once the user-dir is imported."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
from ea_fairseq.subwords import wordpiece  # noqa: F401
