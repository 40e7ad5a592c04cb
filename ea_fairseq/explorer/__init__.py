"""Interactive pages of attention maps: layers, heads, stages, and two models side by side."""

import ea_fairseq.plugin  # noqa: F401  must come before anything here uses fairseq
