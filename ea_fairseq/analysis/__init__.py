"""What a model costs, and what belongs to which of its parts."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
