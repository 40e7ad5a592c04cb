"""Multivariate time series: files, what is known of a data set, and examples for training."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
