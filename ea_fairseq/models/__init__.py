"""Models, which fairseq finds by their architecture's name."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
