"""Terms, whose sum is the scores of an attention; one term per file."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
