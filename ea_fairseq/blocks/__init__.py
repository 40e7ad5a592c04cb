"""What takes a part of a layer's channels beside its self-attention."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
