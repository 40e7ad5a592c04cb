"""Tasks that fairseq does not have, which ``--task`` names."""

from ea_fairseq.tasks import masked_time_series, time_series_prediction  # noqa: F401
