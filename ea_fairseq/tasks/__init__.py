"""Tasks for ``--task`` that fairseq does not have."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
from ea_fairseq.tasks import (  # noqa: F401
    image_prediction,
    masked_time_series,
    node_prediction,
    span_corruption,
    time_series_prediction,
)
