"""What a model costs, and what its attention maps show."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
