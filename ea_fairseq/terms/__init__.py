"""What the scores of an attention are the sum of, a term a file."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
