"""What a decoder remembers from step to step, and how it follows beam search."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
