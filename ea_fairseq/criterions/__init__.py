"""Criteria for ``--criterion``: training losses."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
from ea_fairseq.criterions import (  # noqa: F401
    label_smoothed_cross_entropy,
    masked_values,
    r_drop,
    speed,
)
